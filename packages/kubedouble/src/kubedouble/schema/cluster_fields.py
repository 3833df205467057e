"""Object metadata; the kinds a cluster is made of; access control; and the kinds that extend the API.

The notation is that of :mod:`kubedouble.schema.kinds`.
"""

from __future__ import annotations

TYPES = """
@ io.k8s.apimachinery.pkg.apis.meta.v1
ObjectMeta: name string; generateName string; namespace string; selfLink string; uid string;
  resourceVersion string; generation int64; creationTimestamp time; deletionTimestamp? time;
  deletionGracePeriodSeconds? int64; labels {string}; annotations {string};
  ownerReferences [OwnerReference] map=uid; finalizers [string] set merge;
  managedFields [ManagedFieldsEntry]
OwnerReference atomic: apiVersion! string; kind! string; name! string; uid! string; controller? bool;
  blockOwnerDeletion? bool
ManagedFieldsEntry: manager string; operation string; apiVersion string; time? time; fieldsType string;
  fieldsV1? any; subresource string
LabelSelector atomic: matchLabels {string}; matchExpressions [LabelSelectorRequirement]
LabelSelectorRequirement: key! string; operator! string; values [string]
Condition: type! string; status! string; observedGeneration int64; lastTransitionTime! time; reason! string;
  message! string
ListMeta: selfLink string; resourceVersion string; continue string; remainingItemCount? int64
DeleteOptions: apiVersion string; kind string; gracePeriodSeconds? int64; preconditions Preconditions;
  orphanDependents? bool; propagationPolicy? string; dryRun [string];
  ignoreStoreReadErrorWithClusterBreakingPotential? bool
Preconditions: uid? string; resourceVersion? string

@ io.k8s.api.core.v1
Namespace kind: metadata+ ObjectMeta; spec+ NamespaceSpec; status+ NamespaceStatus
NamespaceSpec: finalizers [string]
NamespaceStatus: phase string =Active; conditions [NamespaceCondition] map=type
NamespaceCondition: type! string; status! string; lastTransitionTime time; reason string; message string
Node kind: metadata+ ObjectMeta; spec+ NodeSpec; status+ NodeStatus
NodeSpec: podCIDR string; podCIDRs [string] set merge; providerID string; unschedulable bool;
  taints [Taint]; configSource NodeConfigSource; externalID string
Taint: key! string; value string; effect! string(NoSchedule|PreferNoSchedule|NoExecute); timeAdded? time
NodeConfigSource: configMap ConfigMapNodeConfigSource
ConfigMapNodeConfigSource: namespace! string; name! string; uid string; resourceVersion string;
  kubeletConfigKey! string
NodeStatus: capacity {quantity}; allocatable {quantity}; phase string; conditions [NodeCondition] map=type;
  addresses [NodeAddress] map=type; daemonEndpoints+ NodeDaemonEndpoints; nodeInfo+ NodeSystemInfo;
  images [ContainerImage]; volumesInUse [string]; volumesAttached [AttachedVolume]; config NodeConfigStatus;
  runtimeHandlers [NodeRuntimeHandler]; features NodeFeatures
NodeCondition: type! string; status! string; lastHeartbeatTime time; lastTransitionTime time; reason string;
  message string
NodeAddress: type! string; address! string
NodeDaemonEndpoints: kubeletEndpoint+ DaemonEndpoint
DaemonEndpoint: Port! int32
NodeSystemInfo: machineID! string; systemUUID! string; bootID! string; kernelVersion! string;
  osImage! string; containerRuntimeVersion! string; kubeletVersion! string; kubeProxyVersion! string;
  operatingSystem! string; architecture! string; swap NodeSwapStatus
NodeSwapStatus: capacity? int64
ContainerImage: names! [string]; sizeBytes int64
AttachedVolume: name! string; devicePath! string
NodeConfigStatus: assigned NodeConfigSource; active NodeConfigSource; lastKnownGood NodeConfigSource;
  error string
NodeRuntimeHandler: name! string; features NodeRuntimeHandlerFeatures
NodeRuntimeHandlerFeatures: recursiveReadOnlyMounts? bool; userNamespaces? bool
NodeFeatures: supplementalGroupsPolicy? bool
ConfigMap kind: metadata+ ObjectMeta; immutable? bool; data {string}; binaryData {bytes}
Secret kind: metadata+ ObjectMeta; immutable? bool; data {bytes}; stringData {string}; type string =Opaque
ServiceAccount kind: metadata+ ObjectMeta; secrets [ObjectReference] map=name;
  imagePullSecrets [LocalObjectReference]; automountServiceAccountToken? bool
ObjectReference atomic: kind string; namespace string; name string; uid string; apiVersion string;
  resourceVersion string; fieldPath string
LocalObjectReference atomic: name string
Service kind: metadata+ ObjectMeta; spec+ ServiceSpec; status+ ServiceStatus
ServiceSpec: ports [ServicePort] map=port,protocol merge=port; selector {string} atomic; clusterIP string;
  clusterIPs [string]; type string(ClusterIP|ExternalName|LoadBalancer|NodePort) =ClusterIP;
  externalIPs [string]; sessionAffinity string(ClientIP|None) =None; loadBalancerIP string;
  loadBalancerSourceRanges [string]; externalName string; externalTrafficPolicy string;
  healthCheckNodePort int32; publishNotReadyAddresses bool; sessionAffinityConfig SessionAffinityConfig;
  ipFamilies [string]; ipFamilyPolicy? string; allocateLoadBalancerNodePorts? bool;
  loadBalancerClass? string; internalTrafficPolicy? string(Cluster|Local) =Cluster;
  trafficDistribution? string
ServicePort: name string; protocol string(SCTP|TCP|UDP) =TCP; appProtocol? string; port! int32;
  targetPort int-or-string; nodePort int32
SessionAffinityConfig: clientIP ClientIPConfig
ClientIPConfig: timeoutSeconds? int32
ServiceStatus: loadBalancer+ LoadBalancerStatus; conditions [Condition] map=type
LoadBalancerStatus: ingress [LoadBalancerIngress]
LoadBalancerIngress: ip string; hostname string; ipMode? string; ports [PortStatus]
PortStatus: port! int32; protocol! string; error? string
Event kind: metadata!+ ObjectMeta; involvedObject!+ ObjectReference; reason string; message string;
  source+ EventSource; firstTimestamp time; lastTimestamp time; count int32; type string;
  eventTime microtime; series EventSeries; action string; related ObjectReference;
  reportingComponent+ string; reportingInstance+ string
EventSource: component string; host string
EventSeries: count int32; lastObservedTime microtime
@ io.k8s.api.networking.v1
NetworkPolicy kind: metadata+ ObjectMeta; spec+ NetworkPolicySpec
NetworkPolicySpec: podSelector+ LabelSelector; ingress [NetworkPolicyIngressRule];
  egress [NetworkPolicyEgressRule]; policyTypes [string]
NetworkPolicyIngressRule: ports [NetworkPolicyPort]; from [NetworkPolicyPeer]
NetworkPolicyEgressRule: ports [NetworkPolicyPort]; to [NetworkPolicyPeer]
NetworkPolicyPort: protocol? string =TCP; port? int-or-string; endPort? int32
NetworkPolicyPeer: podSelector LabelSelector; namespaceSelector LabelSelector; ipBlock IPBlock
IPBlock: cidr! string; except [string]
@ io.k8s.api.events.v1
Event kind: metadata!+ ObjectMeta; eventTime! microtime; series EventSeries; reportingController string;
  reportingInstance string; action string; reason string; regarding+ ObjectReference;
  related ObjectReference; note string; type string; deprecatedSource+ EventSource;
  deprecatedFirstTimestamp time; deprecatedLastTimestamp time; deprecatedCount int32
EventSeries: count! int32; lastObservedTime! microtime
@ io.k8s.api.coordination.v1
Lease kind: metadata+ ObjectMeta; spec+ LeaseSpec
LeaseSpec: holderIdentity? string; leaseDurationSeconds? int32; acquireTime? microtime;
  renewTime? microtime; leaseTransitions? int32; strategy? string; preferredHolder? string

@ io.k8s.api.scheduling.v1
PriorityClass kind: metadata+ ObjectMeta; value! int32; globalDefault bool; description string;
  preemptionPolicy? string =PreemptLowerPriority

@ io.k8s.api.rbac.v1
Role kind: metadata+ ObjectMeta; rules! [PolicyRule]
PolicyRule: verbs! [string]; apiGroups [string]; resources [string]; resourceNames [string];
  nonResourceURLs [string]
RoleBinding kind: metadata+ ObjectMeta; subjects [Subject]; roleRef!+ RoleRef
Subject atomic: kind! string; apiGroup string; name! string; namespace string
RoleRef atomic: apiGroup! string =rbac.authorization.k8s.io; kind! string; name! string
ClusterRole kind: metadata+ ObjectMeta; rules! [PolicyRule]; aggregationRule AggregationRule
AggregationRule: clusterRoleSelectors [LabelSelector]
ClusterRoleBinding kind: metadata+ ObjectMeta; subjects [Subject]; roleRef!+ RoleRef
@ io.k8s.api.authorization.v1
SelfSubjectAccessReview kind: metadata+ ObjectMeta; spec!+ SelfSubjectAccessReviewSpec;
  status+ SubjectAccessReviewStatus
SelfSubjectAccessReviewSpec: resourceAttributes ResourceAttributes;
  nonResourceAttributes NonResourceAttributes
SubjectAccessReview kind: metadata+ ObjectMeta; spec!+ SubjectAccessReviewSpec;
  status+ SubjectAccessReviewStatus
LocalSubjectAccessReview kind: metadata+ ObjectMeta; spec!+ SubjectAccessReviewSpec;
  status+ SubjectAccessReviewStatus
SubjectAccessReviewSpec: resourceAttributes ResourceAttributes; nonResourceAttributes NonResourceAttributes;
  user string; groups [string]; extra {[string]}; uid string
ResourceAttributes: namespace string; verb string; group string; version string; resource string;
  subresource string; name string; fieldSelector FieldSelectorAttributes;
  labelSelector LabelSelectorAttributes
FieldSelectorAttributes: rawSelector string; requirements [FieldSelectorRequirement]
LabelSelectorAttributes: rawSelector string; requirements [LabelSelectorRequirement]
NonResourceAttributes: path string; verb string
SubjectAccessReviewStatus: allowed! bool; denied bool; reason string; evaluationError string
SelfSubjectRulesReview kind: metadata+ ObjectMeta; spec!+ SelfSubjectRulesReviewSpec;
  status+ SubjectRulesReviewStatus
SelfSubjectRulesReviewSpec: namespace string
SubjectRulesReviewStatus: resourceRules! [ResourceRule]; nonResourceRules! [NonResourceRule];
  incomplete! bool; evaluationError string
ResourceRule: verbs! [string]; apiGroups [string]; resources [string]; resourceNames [string]
NonResourceRule: verbs! [string]; nonResourceURLs [string]
@ io.k8s.api.authentication.v1
SelfSubjectReview kind: metadata+ ObjectMeta; status+ SelfSubjectReviewStatus
SelfSubjectReviewStatus: userInfo+ UserInfo
TokenReview kind: metadata+ ObjectMeta; spec!+ TokenReviewSpec; status+ TokenReviewStatus
TokenReviewSpec: token string; audiences [string]
TokenReviewStatus: authenticated bool; user+ UserInfo; audiences [string]; error string
TokenRequest kind: metadata+ ObjectMeta; spec!+ TokenRequestSpec; status+ TokenRequestStatus
TokenRequestSpec: audiences! [string]; expirationSeconds? int64 =3600; boundObjectRef BoundObjectReference
TokenRequestStatus: token! string; expirationTimestamp! time
BoundObjectReference: kind string; apiVersion string; name string; uid string
UserInfo: username string; uid string; groups [string]; extra {[string]}
@ io.k8s.apimachinery.pkg.apis.meta.v1
FieldSelectorRequirement: key! string; operator! string; values [string]

@ io.k8s.api.admissionregistration.v1
MutatingWebhookConfiguration kind: metadata+ ObjectMeta; webhooks [MutatingWebhook] map=name
MutatingWebhook: name! string; clientConfig!+ WebhookClientConfig; rules [RuleWithOperations];
  failurePolicy? string(Fail|Ignore) =Fail; matchPolicy? string(Equivalent|Exact) =Equivalent;
  namespaceSelector LabelSelector ={}; objectSelector LabelSelector ={};
  sideEffects!? string(None|NoneOnDryRun|Some|Unknown); timeoutSeconds? int32 =10;
  admissionReviewVersions! [string]; reinvocationPolicy? string(IfNeeded|Never) =Never;
  matchConditions [MatchCondition] map=name
WebhookClientConfig: url? string; service ServiceReference; caBundle bytes
ServiceReference: namespace! string; name! string; path? string; port? int32 =443
RuleWithOperations: operations [string]; apiGroups [string]; apiVersions [string]; resources [string];
  scope? string(*|Cluster|Namespaced) =*
MatchCondition: name! string; expression! string
ValidatingWebhookConfiguration kind: metadata+ ObjectMeta; webhooks [ValidatingWebhook] map=name
ValidatingWebhook: name! string; clientConfig!+ WebhookClientConfig; rules [RuleWithOperations];
  failurePolicy? string(Fail|Ignore) =Fail; matchPolicy? string(Equivalent|Exact) =Equivalent;
  namespaceSelector LabelSelector ={}; objectSelector LabelSelector ={};
  sideEffects!? string(None|NoneOnDryRun|Some|Unknown); timeoutSeconds? int32 =10;
  admissionReviewVersions! [string]; matchConditions [MatchCondition] map=name
MutatingAdmissionPolicy kind: metadata+ ObjectMeta; spec+ MutatingAdmissionPolicySpec
MutatingAdmissionPolicySpec: paramKind ParamKind; matchConstraints MatchResources; variables [Variable];
  mutations [Mutation]; failurePolicy? string(Fail|Ignore) =Fail; matchConditions [MatchCondition] map=name;
  reinvocationPolicy string
Mutation: patchType! string; applyConfiguration ApplyConfiguration; jsonPatch JSONPatch
ApplyConfiguration: expression string
JSONPatch: expression string
MutatingAdmissionPolicyBinding kind: metadata+ ObjectMeta; spec+ MutatingAdmissionPolicyBindingSpec
MutatingAdmissionPolicyBindingSpec: policyName string; paramRef ParamRef; matchResources MatchResources
ValidatingAdmissionPolicy kind: metadata+ ObjectMeta; spec+ ValidatingAdmissionPolicySpec;
  status+ ValidatingAdmissionPolicyStatus
ValidatingAdmissionPolicySpec: paramKind ParamKind; matchConstraints MatchResources;
  validations [Validation]; failurePolicy? string(Fail|Ignore) =Fail; auditAnnotations [AuditAnnotation];
  matchConditions [MatchCondition] map=name; variables [Variable] map=name
ParamKind atomic: apiVersion string; kind string
MatchResources atomic: namespaceSelector LabelSelector ={}; objectSelector LabelSelector ={};
  resourceRules [NamedRuleWithOperations]; excludeResourceRules [NamedRuleWithOperations];
  matchPolicy? string(Equivalent|Exact) =Equivalent
NamedRuleWithOperations atomic: resourceNames [string]; operations [string]; apiGroups [string];
  apiVersions [string]; resources [string]; scope? string(*|Cluster|Namespaced) =*
Validation: expression! string; message string; reason? string; messageExpression string
AuditAnnotation: key! string; valueExpression! string
Variable atomic: name! string; expression! string
ValidatingAdmissionPolicyStatus: observedGeneration int64; typeChecking TypeChecking;
  conditions [Condition] map=type nomerge
TypeChecking: expressionWarnings [ExpressionWarning]
ExpressionWarning: fieldRef! string; warning! string
ValidatingAdmissionPolicyBinding kind: metadata+ ObjectMeta; spec+ ValidatingAdmissionPolicyBindingSpec
ValidatingAdmissionPolicyBindingSpec: policyName string; paramRef ParamRef; matchResources MatchResources;
  validationActions [string] set
ParamRef atomic: name string; namespace string; selector LabelSelector; parameterNotFoundAction? string
@ io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1
CustomResourceDefinition kind: metadata+ ObjectMeta; spec!+ CustomResourceDefinitionSpec;
  status+ CustomResourceDefinitionStatus
CustomResourceDefinitionSpec: group! string; names!+ CustomResourceDefinitionNames;
  scope! string(Cluster|Namespaced); versions! [CustomResourceDefinitionVersion];
  conversion CustomResourceConversion; preserveUnknownFields bool
CustomResourceDefinitionNames: plural! string; singular string; shortNames [string]; kind! string;
  listKind string; categories [string]
CustomResourceDefinitionVersion: name! string; served! bool; storage! bool; deprecated bool;
  deprecationWarning? string; schema CustomResourceValidation; subresources CustomResourceSubresources;
  additionalPrinterColumns [CustomResourceColumnDefinition]; selectableFields [SelectableField]
CustomResourceValidation: openAPIV3Schema JSONSchemaProps
CustomResourceSubresources: status CustomResourceSubresourceStatus; scale CustomResourceSubresourceScale
CustomResourceSubresourceStatus:
CustomResourceSubresourceScale: specReplicasPath! string; statusReplicasPath! string;
  labelSelectorPath? string
CustomResourceColumnDefinition: name! string; type! string; format string; description string;
  priority int32; jsonPath! string
SelectableField: jsonPath! string
CustomResourceConversion: strategy! string(None|Webhook) =None; webhook WebhookConversion
WebhookConversion: clientConfig WebhookClientConfig; conversionReviewVersions! [string]
WebhookClientConfig: url? string; service ServiceReference; caBundle bytes
ServiceReference: namespace! string; name! string; path? string; port? int32 =443
CustomResourceDefinitionStatus: conditions [CustomResourceDefinitionCondition] map=type nomerge;
  acceptedNames+ CustomResourceDefinitionNames; storedVersions [string]; observedGeneration int64
CustomResourceDefinitionCondition: type! string; status! string; lastTransitionTime time; reason string;
  message string; observedGeneration int64
JSONSchemaProps: id string; $schema string; $ref? string; description string; type string; format string;
  title string; default any; maximum? float; exclusiveMaximum bool; minimum? float; exclusiveMinimum bool;
  maxLength? int64; minLength? int64; pattern string; maxItems? int64; minItems? int64; uniqueItems bool;
  multipleOf? float; enum [any]; maxProperties? int64; minProperties? int64; required [string]; items any;
  allOf [JSONSchemaProps]; oneOf [JSONSchemaProps]; anyOf [JSONSchemaProps]; not JSONSchemaProps;
  properties {JSONSchemaProps}; additionalProperties any; patternProperties {JSONSchemaProps};
  dependencies {any}; additionalItems any; definitions {JSONSchemaProps};
  externalDocs ExternalDocumentation; example any; nullable bool;
  x-kubernetes-preserve-unknown-fields? bool; x-kubernetes-embedded-resource bool;
  x-kubernetes-int-or-string bool; x-kubernetes-list-map-keys [string]; x-kubernetes-list-type? string;
  x-kubernetes-map-type? string; x-kubernetes-validations [ValidationRule] map=rule
ExternalDocumentation: description string; url string
ValidationRule: rule! string; message string; messageExpression string; reason? string; fieldPath string;
  optionalOldSelf? bool
"""

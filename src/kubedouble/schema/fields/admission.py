"""What extends the API: webhook configurations, admission policies and custom resource definitions.

The notation is that of :mod:`kubedouble.schema.notation`.
"""

TYPES = """
@ io.k8s.api.admissionregistration.v1
MutatingWebhookConfiguration kind
  metadata+ ObjectMeta; webhooks [MutatingWebhook] map=name
MutatingWebhook
  name! string; clientConfig!+ WebhookClientConfig; rules [RuleWithOperations];
  failurePolicy? string(Fail|Ignore) =Fail; matchPolicy? string(Equivalent|Exact) =Equivalent;
  namespaceSelector LabelSelector ={}; objectSelector LabelSelector ={};
  sideEffects!? string(None|NoneOnDryRun|Some|Unknown); timeoutSeconds? int32 =10;
  admissionReviewVersions! [string]; reinvocationPolicy? string(IfNeeded|Never) =Never;
  matchConditions [MatchCondition] map=name
WebhookClientConfig
  url? string; service ServiceReference; caBundle bytes
ServiceReference
  namespace! string; name! string; path? string; port? int32 =443
RuleWithOperations
  operations [string]; apiGroups [string]; apiVersions [string]; resources [string];
  scope? string(*|Cluster|Namespaced) =*
MatchCondition
  name! string; expression! string
ValidatingWebhookConfiguration kind
  metadata+ ObjectMeta; webhooks [ValidatingWebhook] map=name
ValidatingWebhook
  name! string; clientConfig!+ WebhookClientConfig; rules [RuleWithOperations];
  failurePolicy? string(Fail|Ignore) =Fail; matchPolicy? string(Equivalent|Exact) =Equivalent;
  namespaceSelector LabelSelector ={}; objectSelector LabelSelector ={};
  sideEffects!? string(None|NoneOnDryRun|Some|Unknown); timeoutSeconds? int32 =10;
  admissionReviewVersions! [string]; matchConditions [MatchCondition] map=name
ValidatingAdmissionPolicy kind
  metadata+ ObjectMeta; spec+ ValidatingAdmissionPolicySpec; status+ ValidatingAdmissionPolicyStatus
ValidatingAdmissionPolicySpec
  paramKind ParamKind; matchConstraints MatchResources; validations [Validation];
  failurePolicy? string(Fail|Ignore) =Fail; auditAnnotations [AuditAnnotation];
  matchConditions [MatchCondition] map=name; variables [Variable] map=name
ParamKind atomic
  apiVersion string; kind string
MatchResources atomic
  namespaceSelector LabelSelector ={}; objectSelector LabelSelector ={};
  resourceRules [NamedRuleWithOperations]; excludeResourceRules [NamedRuleWithOperations];
  matchPolicy? string(Equivalent|Exact) =Equivalent
NamedRuleWithOperations atomic
  resourceNames [string]; operations [string]; apiGroups [string]; apiVersions [string];
  resources [string]; scope? string(*|Cluster|Namespaced) =*
Validation
  expression! string; message string; reason? string; messageExpression string
AuditAnnotation
  key! string; valueExpression! string
Variable atomic
  name! string; expression! string
ValidatingAdmissionPolicyStatus
  observedGeneration int64; typeChecking TypeChecking; conditions [Condition] map=type nomerge
TypeChecking
  expressionWarnings [ExpressionWarning]
ExpressionWarning
  fieldRef! string; warning! string
ValidatingAdmissionPolicyBinding kind
  metadata+ ObjectMeta; spec+ ValidatingAdmissionPolicyBindingSpec
ValidatingAdmissionPolicyBindingSpec
  policyName string; paramRef ParamRef; matchResources MatchResources; validationActions [string] set
ParamRef atomic
  name string; namespace string; selector LabelSelector; parameterNotFoundAction? string
@ io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1
CustomResourceDefinition kind
  metadata+ ObjectMeta; spec!+ CustomResourceDefinitionSpec; status+ CustomResourceDefinitionStatus
CustomResourceDefinitionSpec
  group! string; names!+ CustomResourceDefinitionNames; scope! string(Cluster|Namespaced);
  versions! [CustomResourceDefinitionVersion]; conversion CustomResourceConversion;
  preserveUnknownFields bool
CustomResourceDefinitionNames
  plural! string; singular string; shortNames [string]; kind! string; listKind string;
  categories [string]
CustomResourceDefinitionVersion
  name! string; served! bool; storage! bool; deprecated bool; deprecationWarning? string;
  schema CustomResourceValidation; subresources CustomResourceSubresources;
  additionalPrinterColumns [CustomResourceColumnDefinition]; selectableFields [SelectableField]
CustomResourceValidation
  openAPIV3Schema JSONSchemaProps
CustomResourceSubresources
  status CustomResourceSubresourceStatus; scale CustomResourceSubresourceScale
CustomResourceSubresourceStatus
CustomResourceSubresourceScale
  specReplicasPath! string; statusReplicasPath! string; labelSelectorPath? string
CustomResourceColumnDefinition
  name! string; type! string; format string; description string; priority int32; jsonPath! string
SelectableField
  jsonPath! string
CustomResourceConversion
  strategy! string(None|Webhook) =None; webhook WebhookConversion
WebhookConversion
  clientConfig WebhookClientConfig; conversionReviewVersions! [string]
WebhookClientConfig
  url? string; service ServiceReference; caBundle bytes
ServiceReference
  namespace! string; name! string; path? string; port? int32 =443
CustomResourceDefinitionStatus
  conditions [CustomResourceDefinitionCondition] map=type nomerge;
  acceptedNames+ CustomResourceDefinitionNames; storedVersions [string]; observedGeneration int64
CustomResourceDefinitionCondition
  type! string; status! string; lastTransitionTime time; reason string; message string;
  observedGeneration int64
JSONSchemaProps
  id string; $schema string; $ref? string; description string; type string; format string; title string;
  default any; maximum? float; exclusiveMaximum bool; minimum? float; exclusiveMinimum bool;
  maxLength? int64; minLength? int64; pattern string; maxItems? int64; minItems? int64; uniqueItems bool;
  multipleOf? float; enum [any]; maxProperties? int64; minProperties? int64; required [string]; items any;
  allOf [JSONSchemaProps]; oneOf [JSONSchemaProps]; anyOf [JSONSchemaProps]; not JSONSchemaProps;
  properties {JSONSchemaProps}; additionalProperties any; patternProperties {JSONSchemaProps};
  dependencies {any}; additionalItems any; definitions {JSONSchemaProps};
  externalDocs ExternalDocumentation; example any; nullable bool;
  x-kubernetes-preserve-unknown-fields? bool; x-kubernetes-embedded-resource bool;
  x-kubernetes-int-or-string bool; x-kubernetes-list-map-keys [string]; x-kubernetes-list-type? string;
  x-kubernetes-map-type? string; x-kubernetes-validations [ValidationRule] map=rule
ExternalDocumentation
  description string; url string
ValidationRule
  rule! string; message string; messageExpression string; reason? string; fieldPath string;
  optionalOldSelf? bool
"""

"""Kinds a cluster is made of: namespaces, nodes, configuration, services, network policies, events, leases.

The notation is that of :mod:`kubedouble.schema.notation`.
"""

TYPES = """
@ io.k8s.api.core.v1
Namespace kind
  metadata+ ObjectMeta; spec+ NamespaceSpec; status+ NamespaceStatus
NamespaceSpec
  finalizers [string]
NamespaceStatus
  phase string =Active; conditions [NamespaceCondition] map=type
NamespaceCondition
  type! string; status! string; lastTransitionTime time; reason string; message string
Node kind
  metadata+ ObjectMeta; spec+ NodeSpec; status+ NodeStatus
NodeSpec
  podCIDR string; podCIDRs [string] set merge; providerID string; unschedulable bool; taints [Taint];
  configSource NodeConfigSource; externalID string
Taint
  key! string; value string; effect! string(NoSchedule|PreferNoSchedule|NoExecute); timeAdded? time
NodeConfigSource
  configMap ConfigMapNodeConfigSource
ConfigMapNodeConfigSource
  namespace! string; name! string; uid string; resourceVersion string; kubeletConfigKey! string
NodeStatus
  capacity {quantity}; allocatable {quantity}; phase string; conditions [NodeCondition] map=type;
  addresses [NodeAddress] map=type; daemonEndpoints+ NodeDaemonEndpoints; nodeInfo+ NodeSystemInfo;
  images [ContainerImage]; volumesInUse [string]; volumesAttached [AttachedVolume];
  config NodeConfigStatus; runtimeHandlers [NodeRuntimeHandler]; features NodeFeatures
NodeCondition
  type! string; status! string; lastHeartbeatTime time; lastTransitionTime time; reason string;
  message string
NodeAddress
  type! string; address! string
NodeDaemonEndpoints
  kubeletEndpoint+ DaemonEndpoint
DaemonEndpoint
  Port! int32
NodeSystemInfo
  machineID! string; systemUUID! string; bootID! string; kernelVersion! string; osImage! string;
  containerRuntimeVersion! string; kubeletVersion! string; kubeProxyVersion! string;
  operatingSystem! string; architecture! string; swap NodeSwapStatus
NodeSwapStatus
  capacity? int64
ContainerImage
  names! [string]; sizeBytes int64
AttachedVolume
  name! string; devicePath! string
NodeConfigStatus
  assigned NodeConfigSource; active NodeConfigSource; lastKnownGood NodeConfigSource; error string
NodeRuntimeHandler
  name! string; features NodeRuntimeHandlerFeatures
NodeRuntimeHandlerFeatures
  recursiveReadOnlyMounts? bool; userNamespaces? bool
NodeFeatures
  supplementalGroupsPolicy? bool
ConfigMap kind
  metadata+ ObjectMeta; immutable? bool; data {string}; binaryData {bytes}
Secret kind
  metadata+ ObjectMeta; immutable? bool; data {bytes}; stringData {string}; type string =Opaque
ServiceAccount kind
  metadata+ ObjectMeta; secrets [ObjectReference] map=name; imagePullSecrets [LocalObjectReference];
  automountServiceAccountToken? bool
ObjectReference atomic
  kind string; namespace string; name string; uid string; apiVersion string; resourceVersion string;
  fieldPath string
LocalObjectReference atomic
  name string
Service kind
  metadata+ ObjectMeta; spec+ ServiceSpec; status+ ServiceStatus
ServiceSpec
  ports [ServicePort] map=port,protocol merge=port; selector {string} atomic; clusterIP string;
  clusterIPs [string]; type string(ClusterIP|ExternalName|LoadBalancer|NodePort) =ClusterIP;
  externalIPs [string]; sessionAffinity string(ClientIP|None) =None; loadBalancerIP string;
  loadBalancerSourceRanges [string]; externalName string; externalTrafficPolicy string;
  healthCheckNodePort int32; publishNotReadyAddresses bool; sessionAffinityConfig SessionAffinityConfig;
  ipFamilies [string]; ipFamilyPolicy? string; allocateLoadBalancerNodePorts? bool;
  loadBalancerClass? string; internalTrafficPolicy? string(Cluster|Local) =Cluster;
  trafficDistribution? string
ServicePort
  name string; protocol string(SCTP|TCP|UDP) =TCP; appProtocol? string; port! int32;
  targetPort int-or-string; nodePort int32
SessionAffinityConfig
  clientIP ClientIPConfig
ClientIPConfig
  timeoutSeconds? int32
ServiceStatus
  loadBalancer+ LoadBalancerStatus; conditions [Condition] map=type
LoadBalancerStatus
  ingress [LoadBalancerIngress]
LoadBalancerIngress
  ip string; hostname string; ipMode? string; ports [PortStatus]
PortStatus
  port! int32; protocol! string; error? string
Event kind
  metadata!+ ObjectMeta; involvedObject!+ ObjectReference; reason string; message string;
  source+ EventSource; firstTimestamp time; lastTimestamp time; count int32; type string;
  eventTime microtime; series EventSeries; action string; related ObjectReference;
  reportingComponent+ string; reportingInstance+ string
EventSource
  component string; host string
EventSeries
  count int32; lastObservedTime microtime
@ io.k8s.api.networking.v1
NetworkPolicy kind
  metadata+ ObjectMeta; spec+ NetworkPolicySpec
NetworkPolicySpec
  podSelector+ LabelSelector; ingress [NetworkPolicyIngressRule]; egress [NetworkPolicyEgressRule];
  policyTypes [string]
NetworkPolicyIngressRule
  ports [NetworkPolicyPort]; from [NetworkPolicyPeer]
NetworkPolicyEgressRule
  ports [NetworkPolicyPort]; to [NetworkPolicyPeer]
NetworkPolicyPort
  protocol? string =TCP; port? int-or-string; endPort? int32
NetworkPolicyPeer
  podSelector LabelSelector; namespaceSelector LabelSelector; ipBlock IPBlock
IPBlock
  cidr! string; except [string]
@ io.k8s.api.events.v1
Event kind
  metadata!+ ObjectMeta; eventTime! microtime; series EventSeries; reportingController string;
  reportingInstance string; action string; reason string; regarding+ ObjectReference;
  related ObjectReference; note string; type string; deprecatedSource+ EventSource;
  deprecatedFirstTimestamp time; deprecatedLastTimestamp time; deprecatedCount int32
EventSeries
  count! int32; lastObservedTime! microtime
@ io.k8s.api.coordination.v1
Lease kind
  metadata+ ObjectMeta; spec+ LeaseSpec
LeaseSpec
  holderIdentity? string; leaseDurationSeconds? int32; acquireTime? microtime; renewTime? microtime;
  leaseTransitions? int32; strategy? string; preferredHolder? string
"""

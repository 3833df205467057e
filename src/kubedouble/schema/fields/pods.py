"""Pods: what is wanted of them, where they may run, and how they are.

The notation is that of :mod:`kubedouble.schema.notation`.
"""

TYPES = """
@ io.k8s.api.core.v1
Pod kind
  metadata+ ObjectMeta; spec+ PodSpec; status+ PodStatus
PodSpec
  volumes [Volume] map=name retainKeys; initContainers [Container] map=name;
  containers! [Container] map=name; ephemeralContainers [EphemeralContainer] map=name;
  restartPolicy string(Always|OnFailure|Never) =Always; terminationGracePeriodSeconds? int64 =30;
  activeDeadlineSeconds? int64;
  dnsPolicy string(ClusterFirstWithHostNet|ClusterFirst|Default|None) =ClusterFirst;
  nodeSelector {string} atomic; serviceAccountName string; serviceAccount string;
  automountServiceAccountToken? bool; nodeName string; hostNetwork bool; hostPID bool; hostIPC bool;
  shareProcessNamespace? bool; securityContext PodSecurityContext ={};
  imagePullSecrets [LocalObjectReference] map=name; hostname string; subdomain string; affinity Affinity;
  schedulerName string =default-scheduler; tolerations [Toleration]; hostAliases [HostAlias] map=ip;
  priorityClassName string; priority? int32; dnsConfig PodDNSConfig; readinessGates [PodReadinessGate];
  runtimeClassName? string; enableServiceLinks? bool =true;
  preemptionPolicy? string(PreemptLowerPriority|Never); overhead {quantity};
  topologySpreadConstraints [TopologySpreadConstraint] map=topologyKey,whenUnsatisfiable merge=topologyKey;
  setHostnameAsFQDN? bool; os PodOS; hostUsers? bool; schedulingGates [PodSchedulingGate] map=name;
  resourceClaims [PodResourceClaim] map=name retainKeys; resources ResourceRequirements
PodSecurityContext
  seLinuxOptions SELinuxOptions; windowsOptions WindowsSecurityContextOptions; runAsUser? int64;
  runAsGroup? int64; runAsNonRoot? bool; supplementalGroups [int64]; supplementalGroupsPolicy? string;
  fsGroup? int64; sysctls [Sysctl]; fsGroupChangePolicy? string; seccompProfile SeccompProfile;
  appArmorProfile AppArmorProfile; seLinuxChangePolicy? string
Sysctl
  name! string; value! string
Affinity
  nodeAffinity NodeAffinity; podAffinity PodAffinity; podAntiAffinity PodAntiAffinity
NodeAffinity
  requiredDuringSchedulingIgnoredDuringExecution NodeSelector;
  preferredDuringSchedulingIgnoredDuringExecution [PreferredSchedulingTerm]
NodeSelector atomic
  nodeSelectorTerms! [NodeSelectorTerm]
NodeSelectorTerm atomic
  matchExpressions [NodeSelectorRequirement]; matchFields [NodeSelectorRequirement]
NodeSelectorRequirement
  key! string; operator! string; values [string]
PreferredSchedulingTerm
  weight! int32; preference!+ NodeSelectorTerm
PodAffinity
  requiredDuringSchedulingIgnoredDuringExecution [PodAffinityTerm];
  preferredDuringSchedulingIgnoredDuringExecution [WeightedPodAffinityTerm]
PodAffinityTerm
  labelSelector LabelSelector; namespaces [string]; topologyKey! string; namespaceSelector LabelSelector;
  matchLabelKeys [string]; mismatchLabelKeys [string]
WeightedPodAffinityTerm
  weight! int32; podAffinityTerm!+ PodAffinityTerm
PodAntiAffinity
  requiredDuringSchedulingIgnoredDuringExecution [PodAffinityTerm];
  preferredDuringSchedulingIgnoredDuringExecution [WeightedPodAffinityTerm]
Toleration
  key string; operator string; value string; effect string(NoSchedule|PreferNoSchedule|NoExecute);
  tolerationSeconds? int64
HostAlias
  ip! string; hostnames [string]
PodDNSConfig
  nameservers [string]; searches [string]; options [PodDNSConfigOption]
PodDNSConfigOption
  name string; value? string
PodReadinessGate
  conditionType! string
TopologySpreadConstraint
  maxSkew! int32; topologyKey! string; whenUnsatisfiable! string(DoNotSchedule|ScheduleAnyway);
  labelSelector LabelSelector; minDomains? int32; nodeAffinityPolicy? string(Honor|Ignore);
  nodeTaintsPolicy? string(Honor|Ignore); matchLabelKeys [string]
PodOS
  name! string
PodSchedulingGate
  name! string
PodResourceClaim
  name! string; resourceClaimName? string; resourceClaimTemplateName? string
PodStatus
  observedGeneration int64; phase string =Pending; conditions [PodCondition] map=type; message string;
  reason string; nominatedNodeName string; hostIP string; hostIPs [HostIP] merge=ip; podIP string;
  podIPs [PodIP] map=ip; startTime? time; initContainerStatuses [ContainerStatus];
  containerStatuses [ContainerStatus]; qosClass string; ephemeralContainerStatuses [ContainerStatus];
  resize string; resourceClaimStatuses [PodResourceClaimStatus] map=name retainKeys;
  allocatedResources {quantity}; resources ResourceRequirements
PodCondition
  type! string; observedGeneration int64; status! string; lastProbeTime time; lastTransitionTime time;
  reason string; message string
HostIP
  ip! string
PodIP
  ip! string
ContainerStatus
  name! string; state+ ContainerState; lastState+ ContainerState; ready! bool; restartCount! int32;
  image! string; imageID! string; containerID string; started? bool; allocatedResources {quantity};
  resources ResourceRequirements; volumeMounts [VolumeMountStatus] map=mountPath; user ContainerUser;
  allocatedResourcesStatus [ResourceStatus] map=name; stopSignal? string
ContainerState
  waiting ContainerStateWaiting; running ContainerStateRunning; terminated ContainerStateTerminated
ContainerStateWaiting
  reason string; message string
ContainerStateRunning
  startedAt time
ContainerStateTerminated
  exitCode! int32; signal int32; reason string; message string; startedAt time; finishedAt time;
  containerID string
VolumeMountStatus
  name! string; mountPath! string; readOnly bool; recursiveReadOnly? string; volumeStatus VolumeStatus
VolumeStatus
  image ImageVolumeStatus
ImageVolumeStatus
  imageRef string
ContainerUser
  linux LinuxContainerUser
LinuxContainerUser
  uid! int64; gid! int64; supplementalGroups [int64]
ResourceStatus
  name! string; resources [ResourceHealth] map=resourceID nomerge
ResourceHealth
  resourceID! string; health string; message? string
PodResourceClaimStatus
  name! string; resourceClaimName? string
Binding kind
  metadata+ ObjectMeta; target!+ ObjectReference
@ io.k8s.api.policy.v1
Eviction kind
  metadata+ ObjectMeta; deleteOptions DeleteOptions
"""

"""Pods (what they should be, where they may run, how they are), their containers and volumes, and workloads.

The notation is that of :mod:`kubedouble.schema.kinds`.
"""

from __future__ import annotations

TYPES = """
@ io.k8s.api.core.v1
Pod kind: metadata+ ObjectMeta; spec+ PodSpec; status+ PodStatus
PodSpec: volumes [Volume] map=name retainKeys; initContainers [Container] map=name;
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
PodSecurityContext: seLinuxOptions SELinuxOptions; windowsOptions WindowsSecurityContextOptions;
  runAsUser? int64; runAsGroup? int64; runAsNonRoot? bool; supplementalGroups [int64];
  supplementalGroupsPolicy? string; fsGroup? int64; sysctls [Sysctl]; fsGroupChangePolicy? string;
  seccompProfile SeccompProfile; appArmorProfile AppArmorProfile; seLinuxChangePolicy? string
Sysctl: name! string; value! string
Affinity: nodeAffinity NodeAffinity; podAffinity PodAffinity; podAntiAffinity PodAntiAffinity
NodeAffinity: requiredDuringSchedulingIgnoredDuringExecution NodeSelector;
  preferredDuringSchedulingIgnoredDuringExecution [PreferredSchedulingTerm]
NodeSelector atomic: nodeSelectorTerms! [NodeSelectorTerm]
NodeSelectorTerm atomic: matchExpressions [NodeSelectorRequirement]; matchFields [NodeSelectorRequirement]
NodeSelectorRequirement: key! string; operator! string; values [string]
PreferredSchedulingTerm: weight! int32; preference!+ NodeSelectorTerm
PodAffinity: requiredDuringSchedulingIgnoredDuringExecution [PodAffinityTerm];
  preferredDuringSchedulingIgnoredDuringExecution [WeightedPodAffinityTerm]
PodAffinityTerm: labelSelector LabelSelector; namespaces [string]; topologyKey! string;
  namespaceSelector LabelSelector; matchLabelKeys [string]; mismatchLabelKeys [string]
WeightedPodAffinityTerm: weight! int32; podAffinityTerm!+ PodAffinityTerm
PodAntiAffinity: requiredDuringSchedulingIgnoredDuringExecution [PodAffinityTerm];
  preferredDuringSchedulingIgnoredDuringExecution [WeightedPodAffinityTerm]
Toleration: key string; operator string; value string; effect string(NoSchedule|PreferNoSchedule|NoExecute);
  tolerationSeconds? int64
HostAlias: ip! string; hostnames [string]
PodDNSConfig: nameservers [string]; searches [string]; options [PodDNSConfigOption]
PodDNSConfigOption: name string; value? string
PodReadinessGate: conditionType! string
TopologySpreadConstraint: maxSkew! int32; topologyKey! string;
  whenUnsatisfiable! string(DoNotSchedule|ScheduleAnyway); labelSelector LabelSelector; minDomains? int32;
  nodeAffinityPolicy? string(Honor|Ignore); nodeTaintsPolicy? string(Honor|Ignore); matchLabelKeys [string]
PodOS: name! string
PodSchedulingGate: name! string
PodResourceClaim: name! string; resourceClaimName? string; resourceClaimTemplateName? string
PodStatus: observedGeneration int64; phase string =Pending; conditions [PodCondition] map=type;
  message string; reason string; nominatedNodeName string; hostIP string; hostIPs [HostIP] merge=ip;
  podIP string; podIPs [PodIP] map=ip; startTime? time; initContainerStatuses [ContainerStatus];
  containerStatuses [ContainerStatus]; qosClass string; ephemeralContainerStatuses [ContainerStatus];
  resize string; resourceClaimStatuses [PodResourceClaimStatus] map=name retainKeys;
  allocatedResources {quantity}; resources ResourceRequirements
PodCondition: type! string; observedGeneration int64; status! string; lastProbeTime time;
  lastTransitionTime time; reason string; message string
HostIP: ip! string
PodIP: ip! string
ContainerStatus: name! string; state+ ContainerState; lastState+ ContainerState; ready! bool;
  restartCount! int32; image! string; imageID! string; containerID string; started? bool;
  allocatedResources {quantity}; resources ResourceRequirements;
  volumeMounts [VolumeMountStatus] map=mountPath; user ContainerUser;
  allocatedResourcesStatus [ResourceStatus] map=name; stopSignal? string
ContainerState: waiting ContainerStateWaiting; running ContainerStateRunning;
  terminated ContainerStateTerminated
ContainerStateWaiting: reason string; message string
ContainerStateRunning: startedAt time
ContainerStateTerminated: exitCode! int32; signal int32; reason string; message string; startedAt time;
  finishedAt time; containerID string
VolumeMountStatus: name! string; mountPath! string; readOnly bool; recursiveReadOnly? string;
  volumeStatus VolumeStatus
VolumeStatus: image ImageVolumeStatus
ImageVolumeStatus: imageRef string
ContainerUser: linux LinuxContainerUser
LinuxContainerUser: uid! int64; gid! int64; supplementalGroups [int64]
ResourceStatus: name! string; resources [ResourceHealth] map=resourceID nomerge
ResourceHealth: resourceID! string; health string; message? string
PodResourceClaimStatus: name! string; resourceClaimName? string
Binding kind: metadata+ ObjectMeta; target!+ ObjectReference
@ io.k8s.api.policy.v1
Eviction kind: metadata+ ObjectMeta; deleteOptions DeleteOptions

@ io.k8s.api.core.v1
Container: name! string; image string; command [string]; args [string]; workingDir string;
  ports [ContainerPort] map=containerPort,protocol merge=containerPort; envFrom [EnvFromSource];
  env [EnvVar] map=name; resources+ ResourceRequirements; resizePolicy [ContainerResizePolicy];
  restartPolicy? string; volumeMounts [VolumeMount] map=mountPath;
  volumeDevices [VolumeDevice] map=devicePath; livenessProbe Probe; readinessProbe Probe;
  startupProbe Probe; lifecycle Lifecycle; terminationMessagePath string =/dev/termination-log;
  terminationMessagePolicy string(File|FallbackToLogsOnError) =File;
  imagePullPolicy string(Always|IfNotPresent|Never); securityContext SecurityContext; stdin bool;
  stdinOnce bool; tty bool
ContainerPort: name string; hostPort int32; containerPort! int32; protocol string(SCTP|TCP|UDP) =TCP;
  hostIP string
EnvFromSource: prefix string; configMapRef ConfigMapEnvSource; secretRef SecretEnvSource
ConfigMapEnvSource: name string; optional? bool
SecretEnvSource: name string; optional? bool
EnvVar: name! string; value string; valueFrom EnvVarSource
EnvVarSource: fieldRef ObjectFieldSelector; resourceFieldRef ResourceFieldSelector;
  configMapKeyRef ConfigMapKeySelector; secretKeyRef SecretKeySelector; fileKeyRef FileKeySelector
ConfigMapKeySelector atomic: name string; key! string; optional? bool
SecretKeySelector atomic: name string; key! string; optional? bool
FileKeySelector atomic: volumeName! string; path! string; key! string; optional? bool =false
ResourceRequirements: limits {quantity}; requests {quantity}; claims [ResourceClaim] map=name nomerge
ResourceClaim: name! string; request string
ContainerResizePolicy: resourceName! string; restartPolicy! string
VolumeMount: name! string; readOnly bool; recursiveReadOnly? string(Disabled|Enabled|IfPossible);
  mountPath! string; subPath string; mountPropagation? string(Bidirectional|HostToContainer|None);
  subPathExpr string
VolumeDevice: name! string; devicePath! string
Probe: exec ExecAction; httpGet HTTPGetAction; tcpSocket TCPSocketAction; grpc GRPCAction;
  initialDelaySeconds int32; timeoutSeconds int32 =1; periodSeconds int32 =10; successThreshold int32 =1;
  failureThreshold int32 =3; terminationGracePeriodSeconds? int64
ExecAction: command [string]
HTTPGetAction: path string =/; port! int-or-string; host string; scheme string(HTTP|HTTPS) =HTTP;
  httpHeaders [HTTPHeader]
HTTPHeader: name! string; value! string
TCPSocketAction: port! int-or-string; host string
GRPCAction: port! int32; service!? string =""
Lifecycle: postStart LifecycleHandler; preStop LifecycleHandler; stopSignal? string
LifecycleHandler: exec ExecAction; httpGet HTTPGetAction; tcpSocket TCPSocketAction; sleep SleepAction
SleepAction: seconds! int64
SecurityContext: capabilities Capabilities; privileged? bool; seLinuxOptions SELinuxOptions;
  windowsOptions WindowsSecurityContextOptions; runAsUser? int64; runAsGroup? int64; runAsNonRoot? bool;
  readOnlyRootFilesystem? bool; allowPrivilegeEscalation? bool; procMount? string;
  seccompProfile SeccompProfile; appArmorProfile AppArmorProfile
Capabilities: add [string]; drop [string]
SELinuxOptions: user string; role string; type string; level string
WindowsSecurityContextOptions: gmsaCredentialSpecName? string; gmsaCredentialSpec? string;
  runAsUserName? string; hostProcess? bool
SeccompProfile: type! string(Localhost|RuntimeDefault|Unconfined); localhostProfile? string
AppArmorProfile: type! string; localhostProfile? string
EphemeralContainer: name! string; image string; command [string]; args [string]; workingDir string;
  ports [ContainerPort] map=containerPort,protocol merge=containerPort; envFrom [EnvFromSource];
  env [EnvVar] map=name; resources+ ResourceRequirements; resizePolicy [ContainerResizePolicy];
  restartPolicy? string; volumeMounts [VolumeMount] map=mountPath;
  volumeDevices [VolumeDevice] map=devicePath; livenessProbe Probe; readinessProbe Probe;
  startupProbe Probe; lifecycle Lifecycle; terminationMessagePath string =/dev/termination-log;
  terminationMessagePolicy string(File|FallbackToLogsOnError) =File;
  imagePullPolicy string(Always|IfNotPresent|Never); securityContext SecurityContext; stdin bool;
  stdinOnce bool; tty bool; targetContainerName string

@ io.k8s.api.core.v1
Volume: name! string; hostPath HostPathVolumeSource; emptyDir EmptyDirVolumeSource;
  gcePersistentDisk GCEPersistentDiskVolumeSource; awsElasticBlockStore AWSElasticBlockStoreVolumeSource;
  gitRepo GitRepoVolumeSource; secret SecretVolumeSource; nfs NFSVolumeSource; iscsi ISCSIVolumeSource;
  glusterfs GlusterfsVolumeSource; persistentVolumeClaim PersistentVolumeClaimVolumeSource;
  rbd RBDVolumeSource; flexVolume FlexVolumeSource; cinder CinderVolumeSource; cephfs CephFSVolumeSource;
  flocker FlockerVolumeSource; downwardAPI DownwardAPIVolumeSource; fc FCVolumeSource;
  azureFile AzureFileVolumeSource; configMap ConfigMapVolumeSource;
  vsphereVolume VsphereVirtualDiskVolumeSource; quobyte QuobyteVolumeSource;
  azureDisk AzureDiskVolumeSource; photonPersistentDisk PhotonPersistentDiskVolumeSource;
  projected ProjectedVolumeSource; portworxVolume PortworxVolumeSource; scaleIO ScaleIOVolumeSource;
  storageos StorageOSVolumeSource; csi CSIVolumeSource; ephemeral EphemeralVolumeSource;
  image ImageVolumeSource
HostPathVolumeSource: path! string; type? string =""
EmptyDirVolumeSource: medium string; sizeLimit? quantity
GCEPersistentDiskVolumeSource: pdName! string; fsType string; partition int32; readOnly bool
AWSElasticBlockStoreVolumeSource: volumeID! string; fsType string; partition int32; readOnly bool
GitRepoVolumeSource: repository! string; revision string; directory string
SecretVolumeSource: secretName string; items [KeyToPath]; defaultMode? int32 =420; optional? bool
KeyToPath: key! string; path! string; mode? int32
NFSVolumeSource: server! string; path! string; readOnly bool
ISCSIVolumeSource: targetPortal! string; iqn! string; lun! int32; iscsiInterface string =default;
  fsType string; readOnly bool; portals [string]; chapAuthDiscovery bool; chapAuthSession bool;
  secretRef LocalObjectReference; initiatorName? string
GlusterfsVolumeSource: endpoints! string; path! string; readOnly bool
PersistentVolumeClaimVolumeSource: claimName! string; readOnly bool
RBDVolumeSource: monitors! [string]; image! string; fsType string; pool string =rbd; user string =admin;
  keyring string =/etc/ceph/keyring; secretRef LocalObjectReference; readOnly bool
FlexVolumeSource: driver! string; fsType string; secretRef LocalObjectReference; readOnly bool;
  options {string}
CinderVolumeSource: volumeID! string; fsType string; readOnly bool; secretRef LocalObjectReference
CephFSVolumeSource: monitors! [string]; path string; user string; secretFile string;
  secretRef LocalObjectReference; readOnly bool
FlockerVolumeSource: datasetName string; datasetUUID string
DownwardAPIVolumeSource: items [DownwardAPIVolumeFile]; defaultMode? int32 =420
DownwardAPIVolumeFile: path! string; fieldRef ObjectFieldSelector; resourceFieldRef ResourceFieldSelector;
  mode? int32
ObjectFieldSelector atomic: apiVersion string =v1; fieldPath! string
ResourceFieldSelector atomic: containerName string; resource! string; divisor quantity =0
FCVolumeSource: targetWWNs [string]; lun? int32; fsType string; readOnly bool; wwids [string]
AzureFileVolumeSource: secretName! string; shareName! string; readOnly bool
ConfigMapVolumeSource: name string; items [KeyToPath]; defaultMode? int32 =420; optional? bool
VsphereVirtualDiskVolumeSource: volumePath! string; fsType string; storagePolicyName string;
  storagePolicyID string
QuobyteVolumeSource: registry! string; volume! string; readOnly bool; user string; group string;
  tenant string
AzureDiskVolumeSource: diskName! string; diskURI! string;
  cachingMode? string(None|ReadOnly|ReadWrite) =ReadWrite; fsType? string =ext4; readOnly? bool =false;
  kind? string(Dedicated|Managed|Shared) =Shared
PhotonPersistentDiskVolumeSource: pdID! string; fsType string
ProjectedVolumeSource: sources! [VolumeProjection]; defaultMode? int32 =420
VolumeProjection: secret SecretProjection; downwardAPI DownwardAPIProjection; configMap ConfigMapProjection;
  serviceAccountToken ServiceAccountTokenProjection; clusterTrustBundle ClusterTrustBundleProjection;
  podCertificate PodCertificateProjection
SecretProjection: name string; items [KeyToPath]; optional? bool
DownwardAPIProjection: items [DownwardAPIVolumeFile]
ConfigMapProjection: name string; items [KeyToPath]; optional? bool
ServiceAccountTokenProjection: audience string; expirationSeconds? int64 =3600; path! string
ClusterTrustBundleProjection: name? string; signerName? string; labelSelector LabelSelector; optional? bool;
  path! string
PodCertificateProjection: signerName string; keyType string; maxExpirationSeconds? int32;
  credentialBundlePath string; keyPath string; certificateChainPath string
PortworxVolumeSource: volumeID! string; fsType string; readOnly bool
ScaleIOVolumeSource: gateway! string; system! string; secretRef! LocalObjectReference; sslEnabled bool;
  protectionDomain string; storagePool string; storageMode string =ThinProvisioned; volumeName string;
  fsType string =xfs; readOnly bool
StorageOSVolumeSource: volumeName string; volumeNamespace string; fsType string; readOnly bool;
  secretRef LocalObjectReference
CSIVolumeSource: driver! string; readOnly? bool; fsType? string; volumeAttributes {string};
  nodePublishSecretRef LocalObjectReference
EphemeralVolumeSource: volumeClaimTemplate PersistentVolumeClaimTemplate
PersistentVolumeClaimTemplate: metadata+ ObjectMeta; spec!+ PersistentVolumeClaimSpec
PersistentVolumeClaimSpec: accessModes [string]; selector LabelSelector;
  resources+ VolumeResourceRequirements; volumeName string; storageClassName? string;
  volumeMode? string(Block|Filesystem) =Filesystem; dataSource TypedLocalObjectReference;
  dataSourceRef TypedObjectReference; volumeAttributesClassName? string
VolumeResourceRequirements: limits {quantity}; requests {quantity}
TypedLocalObjectReference atomic: apiGroup!? string; kind! string; name! string
TypedObjectReference: apiGroup!? string; kind! string; name! string; namespace? string
ImageVolumeSource: reference string; pullPolicy string

@ io.k8s.api.apps.v1
Deployment kind: metadata+ ObjectMeta; spec+ DeploymentSpec; status+ DeploymentStatus
DeploymentSpec: replicas? int32 =1; selector! LabelSelector; template!+ PodTemplateSpec;
  strategy+ DeploymentStrategy retainKeys; minReadySeconds int32; revisionHistoryLimit? int32 =10;
  paused bool; progressDeadlineSeconds? int32 =600
@ io.k8s.api.core.v1
PodTemplateSpec: metadata+ ObjectMeta; spec+ PodSpec
@ io.k8s.api.apps.v1
DeploymentStrategy: type string(Recreate|RollingUpdate) =RollingUpdate;
  rollingUpdate RollingUpdateDeployment
RollingUpdateDeployment: maxUnavailable? int-or-string; maxSurge? int-or-string
DeploymentStatus: observedGeneration int64; replicas int32; updatedReplicas int32; readyReplicas int32;
  availableReplicas int32; unavailableReplicas int32; terminatingReplicas? int32;
  conditions [DeploymentCondition] map=type; collisionCount? int32
DeploymentCondition: type! string; status! string; lastUpdateTime time; lastTransitionTime time;
  reason string; message string
DaemonSet kind: metadata+ ObjectMeta; spec+ DaemonSetSpec; status+ DaemonSetStatus
DaemonSetSpec: selector! LabelSelector; template!+ PodTemplateSpec; updateStrategy+ DaemonSetUpdateStrategy;
  minReadySeconds int32; revisionHistoryLimit? int32 =10
DaemonSetUpdateStrategy: type string(OnDelete|RollingUpdate) =RollingUpdate;
  rollingUpdate RollingUpdateDaemonSet
RollingUpdateDaemonSet: maxUnavailable? int-or-string; maxSurge? int-or-string
DaemonSetStatus: currentNumberScheduled! int32; numberMisscheduled! int32; desiredNumberScheduled! int32;
  numberReady! int32; observedGeneration int64; updatedNumberScheduled int32; numberAvailable int32;
  numberUnavailable int32; collisionCount? int32; conditions [DaemonSetCondition] map=type
DaemonSetCondition: type! string; status! string; lastTransitionTime time; reason string; message string
ReplicaSet kind: metadata+ ObjectMeta; spec+ ReplicaSetSpec; status+ ReplicaSetStatus
ReplicaSetSpec: replicas? int32 =1; selector! LabelSelector; template+ PodTemplateSpec;
  minReadySeconds int32
ReplicaSetStatus: replicas! int32; fullyLabeledReplicas int32; readyReplicas int32; availableReplicas int32;
  terminatingReplicas? int32; observedGeneration int64; conditions [ReplicaSetCondition] map=type
ReplicaSetCondition: type! string; status! string; lastTransitionTime time; reason string; message string
@ io.k8s.api.autoscaling.v1
Scale kind: metadata+ ObjectMeta; spec+ ScaleSpec; status+ ScaleStatus
ScaleSpec: replicas int32
ScaleStatus: replicas! int32; selector string
@ io.k8s.api.autoscaling.v2
HorizontalPodAutoscaler kind: metadata+ ObjectMeta; spec+ HorizontalPodAutoscalerSpec;
  status+ HorizontalPodAutoscalerStatus
HorizontalPodAutoscalerSpec: scaleTargetRef!+ CrossVersionObjectReference; minReplicas? int32 =1;
  maxReplicas! int32; metrics [MetricSpec]; behavior HorizontalPodAutoscalerBehavior
CrossVersionObjectReference atomic: kind! string; name! string; apiVersion string
MetricSpec: type! string(Object|Pods|Resource|ContainerResource|External); object ObjectMetricSource;
  pods PodsMetricSource; resource ResourceMetricSource; containerResource ContainerResourceMetricSource;
  external ExternalMetricSource
ObjectMetricSource: describedObject!+ CrossVersionObjectReference; target!+ MetricTarget;
  metric!+ MetricIdentifier
PodsMetricSource: metric!+ MetricIdentifier; target!+ MetricTarget
ResourceMetricSource: name! string; target!+ MetricTarget
ContainerResourceMetricSource: name! string; target!+ MetricTarget; container! string
ExternalMetricSource: metric!+ MetricIdentifier; target!+ MetricTarget
MetricIdentifier: name! string; selector LabelSelector
MetricTarget: type! string(Utilization|Value|AverageValue); value? quantity; averageValue? quantity;
  averageUtilization? int32
HorizontalPodAutoscalerBehavior: scaleUp HPAScalingRules; scaleDown HPAScalingRules
HPAScalingRules: stabilizationWindowSeconds? int32; selectPolicy? string(Max|Min|Disabled);
  policies [HPAScalingPolicy]; tolerance? quantity
HPAScalingPolicy: type! string(Pods|Percent); value! int32; periodSeconds! int32
HorizontalPodAutoscalerStatus: observedGeneration? int64; lastScaleTime time; currentReplicas int32;
  desiredReplicas! int32; currentMetrics [MetricStatus];
  conditions [HorizontalPodAutoscalerCondition] map=type
HorizontalPodAutoscalerCondition: type! string; status! string; lastTransitionTime time; reason string;
  message string
MetricStatus: type! string; pods PodsMetricStatus; resource ResourceMetricStatus;
  external ExternalMetricStatus
PodsMetricStatus: metric!+ MetricIdentifier; current!+ MetricValueStatus
ResourceMetricStatus: name! string; current!+ MetricValueStatus
ExternalMetricStatus: metric!+ MetricIdentifier; current!+ MetricValueStatus
MetricValueStatus: value? quantity; averageValue? quantity; averageUtilization? int32
@ io.k8s.api.batch.v1
Job kind: metadata+ ObjectMeta; spec+ JobSpec; status+ JobStatus
JobSpec: parallelism? int32; completions? int32; activeDeadlineSeconds? int64; backoffLimit? int32 =6;
  selector LabelSelector; manualSelector? bool; template!+ PodTemplateSpec; ttlSecondsAfterFinished? int32;
  completionMode? string(NonIndexed) =NonIndexed; suspend? bool =false;
  podReplacementPolicy? string(Failed|TerminatingOrFailed) =TerminatingOrFailed
JobStatus: conditions [JobCondition] merge=type; startTime time; completionTime time; active int32;
  succeeded int32; failed int32; terminating? int32; ready? int32
JobCondition: type! string; status! string; lastProbeTime time; lastTransitionTime time; reason string;
  message string
@ io.k8s.api.policy.v1
PodDisruptionBudget kind: metadata+ ObjectMeta; spec+ PodDisruptionBudgetSpec;
  status+ PodDisruptionBudgetStatus
PodDisruptionBudgetSpec: minAvailable? int-or-string; selector LabelSelector retainKeys;
  maxUnavailable? int-or-string; unhealthyPodEvictionPolicy? string(AlwaysAllow|IfHealthyBudget)
PodDisruptionBudgetStatus: observedGeneration int64; disruptedPods {time}; disruptionsAllowed! int32;
  currentHealthy! int32; desiredHealthy! int32; expectedPods! int32; conditions [Condition] map=type
"""

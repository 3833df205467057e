"""Containers: what runs, with which environment, resources, probes and privileges.

The notation is that of :mod:`kubedouble.schema.notation`.
"""

TYPES = """
@ io.k8s.api.core.v1
Container
  name! string; image string; command [string]; args [string]; workingDir string;
  ports [ContainerPort] map=containerPort,protocol merge=containerPort; envFrom [EnvFromSource];
  env [EnvVar] map=name; resources+ ResourceRequirements; resizePolicy [ContainerResizePolicy];
  restartPolicy? string; volumeMounts [VolumeMount] map=mountPath;
  volumeDevices [VolumeDevice] map=devicePath; livenessProbe Probe; readinessProbe Probe;
  startupProbe Probe; lifecycle Lifecycle; terminationMessagePath string =/dev/termination-log;
  terminationMessagePolicy string(File|FallbackToLogsOnError) =File;
  imagePullPolicy string(Always|IfNotPresent|Never); securityContext SecurityContext; stdin bool;
  stdinOnce bool; tty bool
ContainerPort
  name string; hostPort int32; containerPort! int32; protocol string(SCTP|TCP|UDP) =TCP; hostIP string
EnvFromSource
  prefix string; configMapRef ConfigMapEnvSource; secretRef SecretEnvSource
ConfigMapEnvSource
  name string; optional? bool
SecretEnvSource
  name string; optional? bool
EnvVar
  name! string; value string; valueFrom EnvVarSource
EnvVarSource
  fieldRef ObjectFieldSelector; resourceFieldRef ResourceFieldSelector;
  configMapKeyRef ConfigMapKeySelector; secretKeyRef SecretKeySelector; fileKeyRef FileKeySelector
ConfigMapKeySelector atomic
  name string; key! string; optional? bool
SecretKeySelector atomic
  name string; key! string; optional? bool
FileKeySelector atomic
  volumeName! string; path! string; key! string; optional? bool =false
ResourceRequirements
  limits {quantity}; requests {quantity}; claims [ResourceClaim] map=name nomerge
ResourceClaim
  name! string; request string
ContainerResizePolicy
  resourceName! string; restartPolicy! string
VolumeMount
  name! string; readOnly bool; recursiveReadOnly? string(Disabled|Enabled|IfPossible); mountPath! string;
  subPath string; mountPropagation? string(Bidirectional|HostToContainer|None); subPathExpr string
VolumeDevice
  name! string; devicePath! string
Probe
  exec ExecAction; httpGet HTTPGetAction; tcpSocket TCPSocketAction; grpc GRPCAction;
  initialDelaySeconds int32; timeoutSeconds int32 =1; periodSeconds int32 =10; successThreshold int32 =1;
  failureThreshold int32 =3; terminationGracePeriodSeconds? int64
ExecAction
  command [string]
HTTPGetAction
  path string =/; port! int-or-string; host string; scheme string(HTTP|HTTPS) =HTTP;
  httpHeaders [HTTPHeader]
HTTPHeader
  name! string; value! string
TCPSocketAction
  port! int-or-string; host string
GRPCAction
  port! int32; service!? string =""
Lifecycle
  postStart LifecycleHandler; preStop LifecycleHandler; stopSignal? string
LifecycleHandler
  exec ExecAction; httpGet HTTPGetAction; tcpSocket TCPSocketAction; sleep SleepAction
SleepAction
  seconds! int64
SecurityContext
  capabilities Capabilities; privileged? bool; seLinuxOptions SELinuxOptions;
  windowsOptions WindowsSecurityContextOptions; runAsUser? int64; runAsGroup? int64; runAsNonRoot? bool;
  readOnlyRootFilesystem? bool; allowPrivilegeEscalation? bool; procMount? string;
  seccompProfile SeccompProfile; appArmorProfile AppArmorProfile
Capabilities
  add [string]; drop [string]
SELinuxOptions
  user string; role string; type string; level string
WindowsSecurityContextOptions
  gmsaCredentialSpecName? string; gmsaCredentialSpec? string; runAsUserName? string; hostProcess? bool
SeccompProfile
  type! string(Localhost|RuntimeDefault|Unconfined); localhostProfile? string
AppArmorProfile
  type! string; localhostProfile? string
EphemeralContainer
  name! string; image string; command [string]; args [string]; workingDir string;
  ports [ContainerPort] map=containerPort,protocol merge=containerPort; envFrom [EnvFromSource];
  env [EnvVar] map=name; resources+ ResourceRequirements; resizePolicy [ContainerResizePolicy];
  restartPolicy? string; volumeMounts [VolumeMount] map=mountPath;
  volumeDevices [VolumeDevice] map=devicePath; livenessProbe Probe; readinessProbe Probe;
  startupProbe Probe; lifecycle Lifecycle; terminationMessagePath string =/dev/termination-log;
  terminationMessagePolicy string(File|FallbackToLogsOnError) =File;
  imagePullPolicy string(Always|IfNotPresent|Never); securityContext SecurityContext; stdin bool;
  stdinOnce bool; tty bool; targetContainerName string
"""

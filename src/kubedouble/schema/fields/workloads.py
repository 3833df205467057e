"""Kinds that make and keep pods: Deployment, DaemonSet, PodDisruptionBudget.

The notation is that of :mod:`kubedouble.schema.notation`.
"""

TYPES = """
@ io.k8s.api.apps.v1
Deployment kind
  metadata+ ObjectMeta; spec+ DeploymentSpec; status+ DeploymentStatus
DeploymentSpec
  replicas? int32 =1; selector! LabelSelector; template!+ PodTemplateSpec;
  strategy+ DeploymentStrategy retainKeys; minReadySeconds int32; revisionHistoryLimit? int32 =10;
  paused bool; progressDeadlineSeconds? int32 =600
@ io.k8s.api.core.v1
PodTemplateSpec
  metadata+ ObjectMeta; spec+ PodSpec
@ io.k8s.api.apps.v1
DeploymentStrategy
  type string(Recreate|RollingUpdate) =RollingUpdate; rollingUpdate RollingUpdateDeployment
RollingUpdateDeployment
  maxUnavailable? int-or-string; maxSurge? int-or-string
DeploymentStatus
  observedGeneration int64; replicas int32; updatedReplicas int32; readyReplicas int32;
  availableReplicas int32; unavailableReplicas int32; terminatingReplicas? int32;
  conditions [DeploymentCondition] map=type; collisionCount? int32
DeploymentCondition
  type! string; status! string; lastUpdateTime time; lastTransitionTime time; reason string; message string
DaemonSet kind
  metadata+ ObjectMeta; spec+ DaemonSetSpec; status+ DaemonSetStatus
DaemonSetSpec
  selector! LabelSelector; template!+ PodTemplateSpec; updateStrategy+ DaemonSetUpdateStrategy;
  minReadySeconds int32; revisionHistoryLimit? int32 =10
DaemonSetUpdateStrategy
  type string(OnDelete|RollingUpdate) =RollingUpdate; rollingUpdate RollingUpdateDaemonSet
RollingUpdateDaemonSet
  maxUnavailable? int-or-string; maxSurge? int-or-string
DaemonSetStatus
  currentNumberScheduled! int32; numberMisscheduled! int32; desiredNumberScheduled! int32;
  numberReady! int32; observedGeneration int64; updatedNumberScheduled int32; numberAvailable int32;
  numberUnavailable int32; collisionCount? int32; conditions [DaemonSetCondition] map=type
DaemonSetCondition
  type! string; status! string; lastTransitionTime time; reason string; message string
@ io.k8s.api.policy.v1
PodDisruptionBudget kind
  metadata+ ObjectMeta; spec+ PodDisruptionBudgetSpec; status+ PodDisruptionBudgetStatus
PodDisruptionBudgetSpec
  minAvailable? int-or-string; selector LabelSelector retainKeys; maxUnavailable? int-or-string;
  unhealthyPodEvictionPolicy? string(AlwaysAllow|IfHealthyBudget)
PodDisruptionBudgetStatus
  observedGeneration int64; disruptedPods {time}; disruptionsAllowed! int32; currentHealthy! int32;
  desiredHealthy! int32; expectedPods! int32; conditions [Condition] map=type
"""

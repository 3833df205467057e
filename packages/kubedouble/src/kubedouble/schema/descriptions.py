"""Descriptions of types and fields, in a few words each, for ``kubectl explain``.

A line is ``Type: text`` or ``Type.field: text``; ``*.field`` describes a field wherever it is not
described. A field without a line of its own is described as its type is.
"""

from __future__ import annotations

_TEXT = """
*.apiVersion: Version of the API that this object is written in.
*.kind: Kind of the object.
*.metadata: Name, labels, annotations and other metadata that every object has.
*.spec: What is wanted.
*.status: What is, as last observed. Written by the system.
*.conditions: Aspects of the current state, each of its own type.
*.reason: One word, for programs, why this is so.
*.message: Details, for people.
*.lastTransitionTime: When the condition last changed from one status to another.
*.observedGeneration: Generation of the spec that this status is about.
*.name: Name of the object referred to, or of this item among its like.
*.namespace: Namespace of the object referred to.
*.labels: Labels, by which objects are found and selected.
*.annotations: Annotations: data about the object that is not for selecting.
*.selector: Labels of the objects that belong to this one.
*.resources: Amounts requested, and limits.
*.uid: Unique identifier, in time and space.
ObjectMeta: Metadata that every object has.
ObjectMeta.name: Name, unique among its kind in its namespace. It cannot be changed.
ObjectMeta.generateName: Prefix from which the server makes a unique name, if none is given.
ObjectMeta.namespace: Namespace of the object; kinds of the whole cluster have none.
ObjectMeta.uid: Unique identifier, given by the server.
ObjectMeta.resourceVersion: Version of the object in the store. Opaque; changes with every change.
ObjectMeta.generation: Counts the changes of what is wanted.
ObjectMeta.creationTimestamp: When the object was created.
ObjectMeta.deletionTimestamp: When the object is to be gone; set by a graceful delete.
ObjectMeta.ownerReferences: Objects that this one depends on; it goes when all of them are gone.
ObjectMeta.finalizers: Who must still do something before the object can go.
ObjectMeta.managedFields: Which manager set which fields.
OwnerReference: An object that owns this one.
ManagedFieldsEntry: Fields that one manager set, how and when.
LabelSelector: Selects objects by their labels; all requirements must hold.
LabelSelector.matchLabels: Labels that must have these values.
LabelSelector.matchExpressions: Requirements with an operator: In, NotIn, Exists, DoesNotExist.
LabelSelectorRequirement: A requirement on one label.
Condition: One aspect of the current state.
Namespace: A scope of names.
Node: A machine that runs pods.
NodeSpec: What is wanted of a node.
NodeSpec.podCIDR: Range of addresses for the pods of the node.
NodeSpec.providerID: Identity of the machine, as its provider knows it.
NodeSpec.taints: What keeps pods away that do not tolerate it.
NodeSpec.unschedulable: Whether new pods stay away (kubectl cordon).
NodeStatus: State of a node, as its kubelet reports it.
NodeStatus.addresses: Addresses at which the node can be reached.
NodeStatus.allocatable: Amounts that pods may use, by which the scheduler counts.
NodeStatus.capacity: Amounts that the node has in all.
NodeStatus.conditions: Whether the node is ready, and whether it runs short of something.
NodeStatus.daemonEndpoints: Ports of the node's daemons.
NodeStatus.features: What the node's container runtime can do.
NodeStatus.images: Container images on the node.
NodeStatus.nodeInfo: Versions and identifiers of the machine and its software.
NodeStatus.phase: No longer used.
NodeStatus.volumesAttached: Volumes attached to the node.
NodeStatus.volumesInUse: Attached volumes that pods use.
NodeCondition: One aspect of a node's state.
NodeCondition.type: Ready, MemoryPressure, DiskPressure, PIDPressure or NetworkUnavailable.
NodeCondition.status: True, False or Unknown.
NodeCondition.lastHeartbeatTime: When the kubelet last said so.
NodeAddress: An address of a node.
NodeAddress.type: Hostname, InternalIP, ExternalIP, InternalDNS or ExternalDNS.
NodeSystemInfo: Versions and identifiers of a machine and its software.
NodeSystemInfo.kubeletVersion: Version of the kubelet.
NodeSystemInfo.kernelVersion: Version of the kernel.
NodeSystemInfo.osImage: Name of the operating system.
NodeSystemInfo.containerRuntimeVersion: Container runtime and its version.
Taint: Keeps away pods that do not tolerate it.
Taint.effect: NoSchedule, PreferNoSchedule or NoExecute.
Toleration: A taint that the pod tolerates.
Toleration.operator: Exists, or Equal (the default).
Toleration.tolerationSeconds: How long a NoExecute taint is tolerated.
ConfigMap: Configuration that pods and programs read.
ConfigMap.data: Texts by key.
ConfigMap.binaryData: Bytes by key, in base64.
ConfigMap.immutable: Whether the data can no longer change.
Secret: Data to be kept secret.
Secret.data: Bytes by key, in base64.
Secret.stringData: Texts by key; written into data, never read back.
Secret.type: What the secret is for; it cannot be changed.
Service: A name and an address for a set of pods.
ServiceSpec.ports: Ports of the service.
ServiceSpec.type: ClusterIP, NodePort, LoadBalancer or ExternalName.
ServiceAccount: An identity for programs.
Event: Something that happened, told for people.
Event.involvedObject: Object that the event is about.
Event.regarding: Object that the event is about.
Event.note: Details, for people.
Event.type: Normal or Warning.
Event.count: How often it happened.
ObjectReference: Identifies an object.
Lease: A claim that its holder renews.
LeaseSpec.holderIdentity: Who holds the lease.
LeaseSpec.leaseDurationSeconds: How long after a renewal others must wait.
LeaseSpec.acquireTime: When the holder took it.
LeaseSpec.renewTime: When the holder last renewed it.
LeaseSpec.leaseTransitions: How often it changed hands.
Pod: Containers that run together on one node.
PodSpec: What is wanted of a pod.
PodSpec.containers: Containers that run for as long as the pod does.
PodSpec.initContainers: Containers that run one after another before the others start.
PodSpec.ephemeralContainers: Containers added to a running pod, to debug it.
PodSpec.volumes: Volumes that containers may mount.
PodSpec.nodeName: Node that the pod runs on; set by the scheduler.
PodSpec.nodeSelector: Labels that the node must have.
PodSpec.affinity: Where the pod may or should run, beside which others.
PodSpec.tolerations: Taints of nodes that the pod tolerates.
PodSpec.topologySpreadConstraints: How pods spread over zones, nodes and the like.
PodSpec.restartPolicy: Whether ended containers are started again.
PodSpec.schedulerName: Scheduler that places the pod.
PodSpec.priorityClassName: Class that gives the pod its priority.
PodSpec.priority: Priority; pods of higher priority are placed first.
PodSpec.overhead: Amounts that running the pod takes beside its containers.
PodSpec.serviceAccountName: Identity of the pod's programs.
PodSpec.terminationGracePeriodSeconds: How long the pod has to end by itself.
PodSpec.hostNetwork: Whether the pod uses the node's network.
PodSpec.securityContext: Users, groups and privileges of all containers.
PodSpec.schedulingGates: What must be removed before the pod is placed.
PodStatus: State of a pod, as last observed.
PodStatus.phase: Pending, Running, Succeeded, Failed or Unknown.
PodStatus.qosClass: Guaranteed, Burstable or BestEffort; follows from requests and limits.
PodStatus.containerStatuses: State of every container.
PodStatus.podIP: Address of the pod.
PodStatus.hostIP: Address of its node.
PodStatus.startTime: When the kubelet took the pod up.
Container: A program in an image, and how it is run.
Container.image: Image to run.
Container.command: Program to run instead of the image's own.
Container.args: Arguments of the program.
Container.env: Environment variables.
Container.ports: Ports that the container offers.
Container.volumeMounts: Where volumes are mounted.
Container.livenessProbe: When it fails, the container is restarted.
Container.readinessProbe: While it fails, services send nothing here.
Container.startupProbe: Other probes wait until it succeeds.
Container.imagePullPolicy: Always, IfNotPresent or Never.
Container.securityContext: User, group and privileges.
ResourceRequirements: Amounts of resources, wanted and at most.
ResourceRequirements.requests: Amounts that must be free on the node.
ResourceRequirements.limits: Amounts that cannot be exceeded.
EnvVar: An environment variable.
Probe: A check of a container.
Volume: Files that containers can mount, and where they come from.
VolumeMount: Where a volume is mounted.
Affinity: Where a pod may or should run.
ContainerStatus: State of a container.
Deployment: Pods of one template, replaced step by step.
DeploymentSpec.replicas: How many pods there should be.
DeploymentSpec.template: Template of the pods.
ReplicaSet: As many pods of one template as it says.
ReplicaSetSpec.replicas: How many pods there should be.
Job: Pods that run until so many of them succeeded.
JobSpec.completions: How many pods must succeed.
JobSpec.parallelism: How many pods run at a time.
JobSpec.backoffLimit: How many pods may fail before the Job fails.
Scale: How many pods a workload should have, and has.
DaemonSet: One pod of a template on every node.
Role: Permissions in a namespace.
ClusterRole: Permissions in the whole cluster.
RoleBinding: Gives permissions in a namespace to users, groups and service accounts.
ClusterRoleBinding: Gives permissions in the whole cluster to users, groups and service accounts.
PolicyRule: What may be done with which resources.
PolicyRule.verbs: What may be done: get, list, watch, create, update, patch, delete, or * for all.
PolicyRule.apiGroups: Groups of the resources; the core group is the empty text.
PolicyRule.resources: Resources, such as nodes or nodes/status.
PolicyRule.resourceNames: Names of objects, if not all are meant.
MutatingWebhookConfiguration: Webhooks that may change objects before they are stored.
ValidatingWebhookConfiguration: Webhooks that may refuse objects before they are stored.
MutatingWebhook: A webhook that may change objects.
ValidatingWebhook: A webhook that may refuse objects.
MutatingWebhook.rules: Requests that the webhook is called for.
MutatingWebhook.failurePolicy: Whether a request fails or goes on when the webhook cannot be asked.
MutatingWebhook.timeoutSeconds: How long an answer is waited for.
WebhookClientConfig: Where a webhook is reached, and whose certificate it shows.
MutatingAdmissionPolicy: Expressions that may change objects before they are stored.
MutatingAdmissionPolicyBinding: Applies a policy to all objects it matches, or to some.
ValidatingAdmissionPolicy: Expressions that may refuse objects before they are stored.
ValidatingAdmissionPolicyBinding: Applies a policy to all objects it matches, or to some.
NetworkPolicy: Which connections the pods of a namespace accept and make.
CustomResourceDefinition: A kind that is added to the API.
"""

DESCRIPTIONS = dict(line.split(": ", 1) for line in _TEXT.strip().split("\n"))
"""Name of a type, or of a field of one -> what it is."""

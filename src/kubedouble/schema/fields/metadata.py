"""What every kind shares: object and list metadata, selectors, conditions.

The notation is that of :mod:`kubedouble.schema.notation`.
"""

TYPES = """
@ io.k8s.apimachinery.pkg.apis.meta.v1
ObjectMeta
  name string; generateName string; namespace string; selfLink string; uid string; resourceVersion string;
  generation int64; creationTimestamp time; deletionTimestamp? time; deletionGracePeriodSeconds? int64;
  labels {string}; annotations {string}; ownerReferences [OwnerReference] map=uid;
  finalizers [string] set merge; managedFields [ManagedFieldsEntry]
OwnerReference atomic
  apiVersion! string; kind! string; name! string; uid! string; controller? bool; blockOwnerDeletion? bool
ManagedFieldsEntry
  manager string; operation string; apiVersion string; time? time; fieldsType string; fieldsV1? any;
  subresource string
LabelSelector atomic
  matchLabels {string}; matchExpressions [LabelSelectorRequirement]
LabelSelectorRequirement
  key! string; operator! string; values [string]
Condition
  type! string; status! string; observedGeneration int64; lastTransitionTime! time; reason! string;
  message! string
ListMeta
  selfLink string; resourceVersion string; continue string; remainingItemCount? int64
DeleteOptions
  apiVersion string; kind string; gracePeriodSeconds? int64; preconditions Preconditions;
  orphanDependents? bool; propagationPolicy? string; dryRun [string];
  ignoreStoreReadErrorWithClusterBreakingPotential? bool
Preconditions
  uid? string; resourceVersion? string
"""

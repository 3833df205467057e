"""Who may do what: RBAC, and the reviews that answer questions about it.

The notation is that of :mod:`kubedouble.schema.notation`.
"""

TYPES = """
@ io.k8s.api.rbac.v1
Role kind
  metadata+ ObjectMeta; rules! [PolicyRule]
PolicyRule
  verbs! [string]; apiGroups [string]; resources [string]; resourceNames [string]; nonResourceURLs [string]
RoleBinding kind
  metadata+ ObjectMeta; subjects [Subject]; roleRef!+ RoleRef
Subject atomic
  kind! string; apiGroup string; name! string; namespace string
RoleRef atomic
  apiGroup! string =rbac.authorization.k8s.io; kind! string; name! string
ClusterRole kind
  metadata+ ObjectMeta; rules! [PolicyRule]; aggregationRule AggregationRule
AggregationRule
  clusterRoleSelectors [LabelSelector]
ClusterRoleBinding kind
  metadata+ ObjectMeta; subjects [Subject]; roleRef!+ RoleRef
@ io.k8s.api.authorization.v1
SelfSubjectAccessReview kind
  metadata+ ObjectMeta; spec!+ SelfSubjectAccessReviewSpec; status+ SubjectAccessReviewStatus
SelfSubjectAccessReviewSpec
  resourceAttributes ResourceAttributes; nonResourceAttributes NonResourceAttributes
SubjectAccessReview kind
  metadata+ ObjectMeta; spec!+ SubjectAccessReviewSpec; status+ SubjectAccessReviewStatus
LocalSubjectAccessReview kind
  metadata+ ObjectMeta; spec!+ SubjectAccessReviewSpec; status+ SubjectAccessReviewStatus
SubjectAccessReviewSpec
  resourceAttributes ResourceAttributes; nonResourceAttributes NonResourceAttributes; user string;
  groups [string]; extra {[string]}; uid string
ResourceAttributes
  namespace string; verb string; group string; version string; resource string; subresource string;
  name string; fieldSelector FieldSelectorAttributes; labelSelector LabelSelectorAttributes
FieldSelectorAttributes
  rawSelector string; requirements [FieldSelectorRequirement]
LabelSelectorAttributes
  rawSelector string; requirements [LabelSelectorRequirement]
NonResourceAttributes
  path string; verb string
SubjectAccessReviewStatus
  allowed! bool; denied bool; reason string; evaluationError string
SelfSubjectRulesReview kind
  metadata+ ObjectMeta; spec!+ SelfSubjectRulesReviewSpec; status+ SubjectRulesReviewStatus
SelfSubjectRulesReviewSpec
  namespace string
SubjectRulesReviewStatus
  resourceRules! [ResourceRule]; nonResourceRules! [NonResourceRule]; incomplete! bool;
  evaluationError string
ResourceRule
  verbs! [string]; apiGroups [string]; resources [string]; resourceNames [string]
NonResourceRule
  verbs! [string]; nonResourceURLs [string]
@ io.k8s.api.authentication.v1
SelfSubjectReview kind
  metadata+ ObjectMeta; status+ SelfSubjectReviewStatus
SelfSubjectReviewStatus
  userInfo+ UserInfo
TokenReview kind
  metadata+ ObjectMeta; spec!+ TokenReviewSpec; status+ TokenReviewStatus
TokenReviewSpec
  token string; audiences [string]
TokenReviewStatus
  authenticated bool; user+ UserInfo; audiences [string]; error string
TokenRequest kind
  metadata+ ObjectMeta; spec!+ TokenRequestSpec; status+ TokenRequestStatus
TokenRequestSpec
  audiences! [string]; expirationSeconds? int64 =3600; boundObjectRef BoundObjectReference
TokenRequestStatus
  token! string; expirationTimestamp! time
BoundObjectReference
  kind string; apiVersion string; name string; uid string
UserInfo
  username string; uid string; groups [string]; extra {[string]}
@ io.k8s.apimachinery.pkg.apis.meta.v1
FieldSelectorRequirement
  key! string; operator! string; values [string]
"""

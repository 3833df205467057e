"""Objects as rows: the ``metav1.Table`` that ``kubectl get`` prints, with the real server's columns.

Source: k8s.io/kubernetes/pkg/printers/internalversion/printers.go; for custom kinds
apiextensions-apiserver/pkg/registry/customresource/tableconvertor.
"""

from kubedouble.tables.pods import human_duration
from kubedouble.tables.rendering import render_table

__all__ = ["human_duration", "render_table"]

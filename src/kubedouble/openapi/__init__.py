"""OpenAPI: what kubectl reads to explain fields, to validate before it sends, and to learn what the server
can.

Version 2 is one document, in JSON and in the protobuf form that old kubectl insists on; version 3 is an
index and one JSON document per group and version, each under an address that names its content's hash.
"""

from kubedouble.openapi.serving import Answer, OpenAPI

__all__ = ["Answer", "OpenAPI"]

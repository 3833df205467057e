"""The client of OpenStack Placement, over keystoneauth: typed, blocking, never ended by a bare HTTP error.

``connecting`` finds the endpoint and the credentials; ``transport`` sends, negotiates the microversion and
turns every refusal into its error; ``client`` is the typed API, one request a call; ``keeping`` is what is
made of several: read, decide, write, and again when somebody else wrote first.

Nothing is exported from here.
"""

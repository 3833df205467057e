"""What a kubelet rewrites of its cgroups, and when: a test that runs against any kubelet."""

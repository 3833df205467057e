"""What Prometheus knows of the nodes, asked in the background: decisions read what was answered last.

- :mod:`presets`: the queries for exporters whose series are known;
- :mod:`sources`: which queries a configuration asks for;
- :mod:`node_names`: which node a series belongs to;
- :mod:`readings`: from an answer to one value for each node, and why others have none;
- :mod:`asking`: all queries once; :mod:`observer`: again and again; :mod:`curves`: what is learned of
  each node's latency;
- :mod:`diagnosis`: what is wrong with the series, for people.
"""

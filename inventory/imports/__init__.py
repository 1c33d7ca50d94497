"""Files that real teams have: factory manifests, quotes, device types, programmes, walks of PDUs, weather, loggers.

Each module turns bytes or text into a frame plus findings and touches no file. What a file says and Bringup has no
column for is kept under the file's own name and reported; `infra.cli.imports` reads, previews and writes.
"""

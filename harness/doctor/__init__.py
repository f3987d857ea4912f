"""What ``wavecheck doctor`` looks at: Python, libraries, sockets, folders, binaries, a browser."""

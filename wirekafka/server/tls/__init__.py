"""TLS contexts and handshakes of listeners and of outgoing connections."""

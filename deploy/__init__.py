"""What a department needs to run twofold: the offline bundle, its SBOM, and examples for systemd and nginx."""

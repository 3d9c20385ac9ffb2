"""What runs beside Tidegate: Prometheus, Alertmanager and Grafana, as files to mount. Nothing here is in the wheel."""

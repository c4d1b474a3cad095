//! k3s: the scheduler is a part of the k3s process. Not edited yet.
//!
//! Detected by the server's data directory, which agents lack.
//! Upstream: <https://docs.k3s.io/>

use super::{Marker, Platform, Target};

pub(super) static PLATFORM: Platform = Platform {
    id: "k3s",
    family: "k3s",
    markers: &[Marker::Path("/var/lib/rancher/k3s/server")],
    target: Target::Refused {
        instead: "k3s runs the scheduler in its own process, which this version does not edit yet: set kube-scheduler-arg+: [\"config=/path\"] in /etc/rancher/k3s/config.yaml.d/90-scheduler.yaml (that file must name clientConnection.kubeconfig) and restart the k3s service",
    },
};

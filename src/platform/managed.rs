//! Managed clouds: their nodes are workers, the scheduler is out of reach.
//!
//! Self-managed clusters on the same clouds leave some of the same files, so these count only where nothing else is found.

use super::{MANAGED_FAMILY, Marker, Platform, Target};

pub(super) static EKS: Platform = Platform {
    id: "eks",
    family: MANAGED_FAMILY,
    markers: &[Marker::Path("/etc/eks")],
    target: Target::Refused {
        instead: "Amazon EKS hides its control plane: run a second kube-scheduler as a Deployment with your configuration and set spec.schedulerName in the pods that need it",
    },
};

pub(super) static GKE: Platform = Platform {
    id: "gke",
    family: MANAGED_FAMILY,
    markers: &[Marker::Path("/home/kubernetes/kubelet-config.yaml"), Marker::Path("/home/kubernetes/kube-env")],
    target: Target::Refused {
        instead: "Google GKE hides its control plane: run a second kube-scheduler as a Deployment with your configuration and set spec.schedulerName in the pods that need it",
    },
};

pub(super) static AKS: Platform = Platform {
    id: "aks",
    family: MANAGED_FAMILY,
    markers: &[
        Marker::Path("/opt/azure/containers/provision.complete"),
        Marker::Path("/opt/azure/vhd-install.complete"),
        Marker::Path("/opt/azure/containers"),
    ],
    target: Target::Refused {
        instead: "Azure AKS hides its control plane: run a second kube-scheduler as a Deployment with your configuration and set spec.schedulerName in the pods that need it",
    },
};

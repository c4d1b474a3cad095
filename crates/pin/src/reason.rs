//! Why a pod waits, in words: for events, for `why`, for the log.

use std::fmt;

/// Why a pod does not get a node, or not this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No node carries the label
    NoNodeLabelled(String),
    /// The node that carried the label was deleted
    NodeMissing,
    /// The label went away while the pod was about to be bound
    LabelGone,
    /// The kubelet does not report that it is well
    NodeNotReady,
    /// Cordoned
    NodeCordoned,
    /// A taint that the pod does not tolerate
    NodeTainted(String),
    /// The pod's own selector or affinity rules the node out
    NodeMismatch(String),
    /// The kubelet would refuse the pod
    DoesNotFit(String),
    /// A claim is bound only when a scheduler chooses a node, which a binding leaves out
    VolumeWaitsForConsumer(String),
    /// A claim is missing or not bound yet
    VolumeNotBound(String),
    /// The nodeAffinity of a bound volume rules the node out
    VolumeUnreachable(String),
    /// Gates of others keep every scheduler away
    SchedulingGated(String),
}

impl Reason {
    /// One word, for events and metrics.
    pub fn word(&self) -> &'static str {
        match self {
            Self::NoNodeLabelled(_) | Self::LabelGone => "NoNodeLabelled",
            Self::NodeMissing => "NodeMissing",
            Self::NodeNotReady => "NodeNotReady",
            Self::NodeCordoned => "NodeCordoned",
            Self::NodeTainted(_) => "NodeTainted",
            Self::NodeMismatch(_) => "NodeMismatch",
            Self::DoesNotFit(_) => "DoesNotFit",
            Self::VolumeWaitsForConsumer(_) => "VolumeWaitsForConsumer",
            Self::VolumeNotBound(_) => "VolumeNotBound",
            Self::VolumeUnreachable(_) => "VolumeUnreachable",
            Self::SchedulingGated(_) => "SchedulingGated",
        }
    }

    /// Whether only a look at the API shows that it is over: no watch reports it.
    pub fn needs_retry(&self) -> bool {
        matches!(
            self,
            Self::DoesNotFit(_)
                | Self::VolumeWaitsForConsumer(_)
                | Self::VolumeNotBound(_)
                | Self::VolumeUnreachable(_)
                | Self::LabelGone
        )
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNodeLabelled(label) => {
                write!(formatter, "no node is labelled for this pod: kubectl label node NODE {label}=")
            }
            Self::NodeMissing => write!(formatter, "the node was labelled for this pod and is deleted"),
            Self::LabelGone => write!(formatter, "the label was just removed"),
            Self::NodeNotReady => write!(formatter, "the node is not Ready"),
            Self::NodeCordoned => write!(formatter, "the node is cordoned"),
            Self::NodeTainted(taint) => write!(formatter, "the pod does not tolerate the node's taint {taint}"),
            Self::NodeMismatch(why) => write!(formatter, "{why}"),
            Self::DoesNotFit(why) => write!(formatter, "the pod does not fit: {why}"),
            Self::VolumeWaitsForConsumer(claim) => write!(
                formatter,
                "the claim {claim} waits for its first consumer, which only kube-scheduler serves: use gate mode for this pod"
            ),
            Self::VolumeNotBound(claim) => write!(formatter, "the claim {claim} is not bound yet"),
            Self::VolumeUnreachable(volume) => {
                write!(
                    formatter,
                    "the node cannot mount the pod's volume {volume}: the volume's nodeAffinity rules it out"
                )
            }
            Self::SchedulingGated(gates) => write!(formatter, "the pod has the scheduling gates {gates}"),
        }
    }
}

/// Why a pod waits: one reason for each node that is labelled for it, or one alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait(pub Vec<(Option<String>, Reason)>);

impl Wait {
    /// A reason that concerns no single node.
    pub fn alone(reason: Reason) -> Self {
        Self(vec![(None, reason)])
    }

    /// The first reason's word.
    pub fn word(&self) -> &'static str {
        self.0.first().map_or("Waiting", |(_, reason)| reason.word())
    }

    /// Whether it must be looked at again without being told.
    pub fn needs_retry(&self) -> bool {
        self.0.iter().any(|(_, reason)| reason.needs_retry())
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (node, reason)) in self.0.iter().enumerate() {
            let separator = if number == 0 { "" } else { "; " };
            match node {
                Some(node) => write!(formatter, "{separator}{node}: {reason}")?,
                None => write!(formatter, "{separator}{reason}")?,
            }
        }
        Ok(())
    }
}

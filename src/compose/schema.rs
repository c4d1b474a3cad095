//! The fields of a KubeSchedulerConfiguration, as the scheduler's own strict decoder knows them, by version and
//! release.
//!
//! The tables follow `types.go` of `k8s.io/kube-scheduler/config/{v1beta1,v1beta2,v1beta3,v1}` from 1.22 to 1.36, and
//! `k8s.io/component-base/config/v1alpha1` for what those embed. Names are matched with their case. Within a version
//! fields have only ever been added, and patch releases added none. A version's table answers for the releases that
//! serve that version: `v1beta1` to 1.22, `v1beta2` from 1.22 to 1.27, `v1beta3` from 1.23 to 1.28, `v1` from 1.25.

use Type::{Any, Bool, Bytes, Duration, Float, Int, List, Map, Text};

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Bool,
    /// with the lowest and highest value that the field's Go type can hold
    Int(i64, i64),
    Float,
    Text,
    /// `30s`
    Duration,
    /// base64
    Bytes,
    /// A map of free keys to anything, such as a plugin's own arguments
    Any,
    List(&'static Self),
    Map(&'static [Field]),
}

/// A field, and the minor releases whose decoder knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub name: &'static str,
    pub holds: Type,
    pub first: u32,
    pub last: u32,
}

/// The fields of the whole configuration in a version (`v1`, `v1beta3`, …).
pub(crate) fn fields(version: &str) -> Option<&'static [Field]> {
    match version {
        "v1" => Some(V1),
        "v1beta3" => Some(V1BETA3),
        "v1beta2" | "v1beta1" => Some(V1BETA2),
        _ => None,
    }
}

/// A field that every release knows that serves the version.
const fn always(name: &'static str, holds: Type) -> Field {
    since(name, holds, 0)
}

/// A field that a version got in a release.
const fn since(name: &'static str, holds: Type, first: u32) -> Field {
    Field { name, holds, first, last: u32::MAX }
}

const INT32: Type = Int(i32::MIN as i64, i32::MAX as i64);
const INT64: Type = Int(i64::MIN, i64::MAX);

const API_VERSION: Field = always("apiVersion", Text);
const KIND: Field = always("kind", Text);
const PARALLELISM: Field = always("parallelism", INT32);
const ENABLE_PROFILING: Field = always("enableProfiling", Bool);
const ENABLE_CONTENTION_PROFILING: Field = always("enableContentionProfiling", Bool);
const PERCENTAGE_OF_NODES_TO_SCORE: Field = always("percentageOfNodesToScore", INT32);
const POD_INITIAL_BACKOFF: Field = always("podInitialBackoffSeconds", INT64);
const POD_MAX_BACKOFF: Field = always("podMaxBackoffSeconds", INT64);

const V1: &[Field] = &[
    API_VERSION,
    KIND,
    PARALLELISM,
    LEADER_ELECTION,
    CLIENT_CONNECTION,
    ENABLE_PROFILING,
    ENABLE_CONTENTION_PROFILING,
    PERCENTAGE_OF_NODES_TO_SCORE,
    POD_INITIAL_BACKOFF,
    POD_MAX_BACKOFF,
    always("profiles", List(&Map(PROFILE))),
    EXTENDERS,
    since("delayCacheUntilActive", Bool, 28),
];

const V1BETA3: &[Field] = &[
    API_VERSION,
    KIND,
    PARALLELISM,
    LEADER_ELECTION,
    CLIENT_CONNECTION,
    ENABLE_PROFILING,
    ENABLE_CONTENTION_PROFILING,
    PERCENTAGE_OF_NODES_TO_SCORE,
    POD_INITIAL_BACKOFF,
    POD_MAX_BACKOFF,
    BETA_PROFILES,
    EXTENDERS,
];

/// of `v1beta1` as well
const V1BETA2: &[Field] = &[
    API_VERSION,
    KIND,
    PARALLELISM,
    LEADER_ELECTION,
    CLIENT_CONNECTION,
    always("healthzBindAddress", Text),
    always("metricsBindAddress", Text),
    ENABLE_PROFILING,
    ENABLE_CONTENTION_PROFILING,
    PERCENTAGE_OF_NODES_TO_SCORE,
    POD_INITIAL_BACKOFF,
    POD_MAX_BACKOFF,
    BETA_PROFILES,
    EXTENDERS,
];

const LEADER_ELECTION: Field = always(
    "leaderElection",
    Map(&[
        always("leaderElect", Bool),
        always("leaseDuration", Duration),
        always("renewDeadline", Duration),
        always("retryPeriod", Duration),
        always("resourceLock", Text),
        always("resourceName", Text),
        always("resourceNamespace", Text),
    ]),
);

const CLIENT_CONNECTION: Field = always(
    "clientConnection",
    Map(&[
        always("kubeconfig", Text),
        always("acceptContentTypes", Text),
        always("contentType", Text),
        always("qps", Float),
        always("burst", INT32),
    ]),
);

const SCHEDULER_NAME: Field = always("schedulerName", Text);
const PLUGIN_CONFIG: Field = always("pluginConfig", List(&Map(&[always("name", Text), always("args", Any)])));

const PROFILE: &[Field] = &[SCHEDULER_NAME, since("percentageOfNodesToScore", INT32, 26), PLUGINS, PLUGIN_CONFIG];

const BETA_PROFILES: Field = always("profiles", List(&Map(&[SCHEDULER_NAME, PLUGINS, PLUGIN_CONFIG])));

const PLUGINS: Field = always("plugins", Map(POINTS));

/// The extension points. The same in all versions, as none of them got a point in a release where another did not.
pub(crate) const POINTS: &[Field] = &[
    since("preEnqueue", PLUGIN_SET, 26),
    always("queueSort", PLUGIN_SET),
    always("preFilter", PLUGIN_SET),
    always("filter", PLUGIN_SET),
    always("postFilter", PLUGIN_SET),
    always("preScore", PLUGIN_SET),
    always("score", PLUGIN_SET),
    always("reserve", PLUGIN_SET),
    always("permit", PLUGIN_SET),
    always("preBind", PLUGIN_SET),
    always("bind", PLUGIN_SET),
    always("postBind", PLUGIN_SET),
    since("multiPoint", PLUGIN_SET, 23),
    since("placementGenerate", PLUGIN_SET, 36),
    since("placementScore", PLUGIN_SET, 36),
];

const PLUGIN_SET: Type = Map(&[always("enabled", List(&Map(PLUGIN))), always("disabled", List(&Map(PLUGIN)))]);

const PLUGIN: &[Field] = &[always("name", Text), always("weight", INT32)];

const EXTENDERS: Field = always(
    "extenders",
    List(&Map(&[
        always("urlPrefix", Text),
        always("filterVerb", Text),
        always("preemptVerb", Text),
        always("prioritizeVerb", Text),
        always("weight", INT64),
        always("bindVerb", Text),
        always("enableHTTPS", Bool),
        always("tlsConfig", Map(TLS_CONFIG)),
        always("httpTimeout", Duration),
        always("nodeCacheCapable", Bool),
        always("managedResources", List(&Map(MANAGED_RESOURCE))),
        always("ignorable", Bool),
    ])),
);

const TLS_CONFIG: &[Field] = &[
    always("insecure", Bool),
    always("serverName", Text),
    always("certFile", Text),
    always("keyFile", Text),
    always("caFile", Text),
    always("certData", Bytes),
    always("keyData", Bytes),
    always("caData", Bytes),
];

const MANAGED_RESOURCE: &[Field] = &[always("name", Text), always("ignoredByScheduler", Bool)];

//! Follows one mirror pod by its name, so that the number of pods in the cluster does not matter.

use futures_util::StreamExt as _;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::api::Pod;
use crate::cluster::{ANSWER_TIMEOUT, answer, told};

/// What is known of the pod.
#[derive(Clone, Debug)]
pub enum Known {
    /// No answer has come yet
    NotYet,
    /// The API does not answer, for this reason
    Away(String),
    /// There is no such pod
    Absent,
    /// There is
    Pod(Box<Pod>),
}

/// A pod that is followed until this is dropped.
#[derive(Debug)]
pub struct PodWatch {
    /// What is known now
    pub known: watch::Receiver<Known>,
    pods: Api<Pod>,
    name: String,
    task: JoinHandle<()>,
}

impl Drop for PodWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl PodWatch {
    /// Begins to follow a pod.
    pub fn begin(client: Client, namespace: &str, name: &str) -> Self {
        let (sender, known) = watch::channel(Known::NotYet);
        let pods: Api<Pod> = Api::namespaced(client, namespace);
        let (asked, own_name) = (pods.clone(), name.to_owned());
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let task = tokio::spawn(async move {
            let mut events = watcher::watcher(pods, config).default_backoff().boxed();
            let mut listed = None;
            // the first answer is waited for, but not for ever
            let deadline = Instant::now() + ANSWER_TIMEOUT;
            let mut is_answered = false;
            loop {
                let event = if is_answered {
                    events.next().await
                } else if let Ok(event) = tokio::time::timeout_at(deadline, events.next()).await {
                    event
                } else {
                    sender.send_replace(Known::Away(format!("no answer in {} s", ANSWER_TIMEOUT.as_secs())));
                    is_answered = true;
                    continue;
                };
                let Some(event) = event else { return };
                // that a list begins is no answer
                is_answered |= !matches!(event, Ok(Event::Init));
                let news = match event {
                    Ok(Event::Init) => {
                        listed = None;
                        continue;
                    }
                    Ok(Event::InitApply(pod)) => {
                        listed = Some(pod);
                        continue;
                    }
                    Ok(Event::InitDone) => listed.take().map_or(Known::Absent, |pod| Known::Pod(Box::new(pod))),
                    Ok(Event::Apply(pod)) => Known::Pod(Box::new(pod)),
                    Ok(Event::Delete(_)) => Known::Absent,
                    Err(error) => Known::Away(told(&error)),
                };
                if sender.send(news).is_err() {
                    return;
                }
            }
        });
        Self { known, pods: asked, name: own_name, task }
    }

    /// The pod as the API has it in this moment, if there is one.
    pub async fn ask(&self) -> Result<Option<Pod>, String> {
        answer(self.pods.get_opt(&self.name)).await
    }
}

//! An API server of few words: nodes, pods, watches that stay open, and patches.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use schedpatch_service::api::Api;
use schedpatch_service::client::connect;
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::stage::read_request;

#[derive(Debug, Default)]
struct Objects {
    nodes: Vec<Value>,
    pods: Vec<Value>,
    /// What patches are answered with
    patch_code: u16,
    /// Whether nodes may not be listed or watched
    hides_nodes: bool,
    requests: Vec<String>,
}

/// The cluster; clones show the same one.
#[derive(Clone, Debug, Default)]
pub struct Cluster(Arc<Mutex<Objects>>);

impl Cluster {
    fn objects(&self) -> std::sync::MutexGuard<'_, Objects> {
        self.0.lock().expect("unpoisoned")
    }

    /// Serves on the loopback.
    pub async fn serve(&self) -> Api {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let cluster = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(cluster.clone().connection(stream));
            }
        });
        let config = kube::Config::new(format!("http://{address}").parse().expect("a URI"));
        Api::new(connect(config).expect("a client"))
    }

    pub fn add_node(&self, name: &str, ip: &str) {
        let addresses = json!([{"type": "InternalIP", "address": ip}]);
        let meta = json!({"name": name, "resourceVersion": "1"});
        self.objects().nodes.push(json!({"metadata": meta, "status": {"addresses": addresses}}));
    }

    /// Makes a pod, in the place of the one with this name.
    pub fn set_pod(&self, name: &str, uid: &str, node: &str) {
        let mut objects = self.objects();
        objects.pods.retain(|pod| pod["metadata"]["name"] != name);
        let meta = json!({"namespace": "n", "name": name, "uid": uid, "resourceVersion": "1"});
        objects.pods.push(json!({"metadata": meta, "spec": {"nodeName": node}}));
    }

    pub fn set_patch_code(&self, code: u16) {
        self.objects().patch_code = code;
    }

    pub fn hide_nodes(&self) {
        self.objects().hides_nodes = true;
    }

    /// How many requests begin with these words.
    pub fn count(&self, words: &str) -> usize {
        self.objects().requests.iter().filter(|request| request.starts_with(words)).count()
    }

    async fn connection(self, stream: TcpStream) -> Option<()> {
        let mut stream = BufReader::new(stream);
        loop {
            let (head, _) = read_request(&mut stream).await?;
            let request = head.lines().next()?.to_owned();
            self.objects().requests.push(request.clone());
            let (code, body) = self.answer(&request);
            let is_watch = code == 200 && request.contains("watch=true");
            let length = if is_watch {
                "transfer-encoding: chunked".to_owned()
            } else {
                format!("content-length: {}", body.len())
            };
            let head = format!("HTTP/1.1 {code} x\r\ncontent-type: application/json\r\n{length}\r\n\r\n");
            stream.write_all(head.as_bytes()).await.ok()?;
            if !is_watch {
                stream.write_all(body.as_bytes()).await.ok()?;
                continue;
            }
            // it ends when the permission is gone
            while self.answer(&request).0 == 200 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            stream.write_all(b"0\r\n\r\n").await.ok()?;
        }
    }

    fn answer(&self, request: &str) -> (u16, String) {
        let objects = self.objects();
        let status = |code: u16| {
            (
                code,
                json!({"kind": "Status", "status": "Failure", "code": code, "message": "no", "reason": "x"})
                    .to_string(),
            )
        };
        let list = |items: &[Value]| (200, json!({"metadata": {"resourceVersion": "1"}, "items": items}).to_string());
        let path = request.split(' ').nth(1).unwrap_or_default().split('?').next().unwrap_or_default();
        let named = path.strip_prefix("/api/v1/namespaces/n/pods/");
        let found = named.and_then(|name| objects.pods.iter().find(|pod| pod["metadata"]["name"] == name));
        match (path, found) {
            ("/api/v1/nodes", _) if objects.hides_nodes => status(403),
            ("/api/v1/nodes", _) => list(&objects.nodes),
            ("/api/v1/pods", _) => list(&objects.pods),
            (_, Some(pod)) if request.starts_with("PATCH") && objects.patch_code == 200 => (200, pod.to_string()),
            (_, Some(_)) if request.starts_with("PATCH") => status(objects.patch_code),
            (_, Some(pod)) => (200, pod.to_string()),
            (_, None) => status(404),
        }
    }
}

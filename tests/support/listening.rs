//! A writ that listens on a port of 127.0.0.1 with a certificate of a test's own authority, and connections to it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use rustls::RootCertStore;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

use super::certificates::{Authority, Holds, Pair};
use super::world::{Setup, World};

/// How long anything may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A world that is served.
pub struct Listening {
    pub world: World,
    pub address: SocketAddr,
    pub authority: Authority,
    /// What signs clients' certificates.
    pub clients: Authority,
    pub reload: Arc<Notify>,
    pub dir: TempDir,
    stop: CancellationToken,
    served: Option<tokio::task::JoinHandle<std::io::Result<()>>>,
}

impl Listening {
    /// With a certificate, asking clients for none.
    pub async fn new() -> Self {
        Self::with("", "").await
    }

    /// With these lines more in `[broker.tls]` (`CLIENT_CA` stands for the file of the clients' authority) and these in `[limits]`.
    pub async fn with(tls: &str, limits: &str) -> Self {
        let (authority, clients) = (Authority::new(), Authority::new());
        let dir = tempfile::tempdir().unwrap();
        authority.server(Holds::Always).write(dir.path(), "server");
        std::fs::write(dir.path().join("ca.pem"), &authority.pem).unwrap();
        std::fs::write(dir.path().join("clients.pem"), &clients.pem).unwrap();
        let at = |name: &str| format!("{:?}", dir.path().join(name).display().to_string());
        let more = format!(
            "[broker.tls]\ncertificate = {}\nkey = {}\n{}\n[limits]\n{limits}\n[proxy]\n",
            at("server.pem"),
            at("server.key"),
            tls.replace("CLIENT_CA", &at("clients.pem"))
        );
        let edits = vec![
            ("writ.toml", "[proxy]\n", more),
            ("writ.toml", "http://127.0.0.1:8700", "https://127.0.0.1:8700".to_owned()),
        ];
        let world = World::with(Setup { edits, ..Setup::default() }).await;
        let (app, _) = world.another();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (reload, stop) = (app.reload(), CancellationToken::new());
        let served = Some(tokio::spawn(app.serve(listener, stop.clone())));
        Self {
            world,
            address,
            authority,
            clients,
            reload,
            dir,
            stop,
            served,
        }
    }

    /// A path beside the certificates.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Its URL under the name that its certificate has.
    pub fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.address.port())
    }

    /// A TLS client that trusts the authority, speaks this protocol, and shows this certificate.
    pub fn client(&self, alpn: &str, identity: Option<&Pair>) -> ClientConfig {
        client(&self.authority, alpn, identity)
    }

    /// A TLS connection. With TLS 1.3 a certificate that is refused shows only at the first read.
    pub async fn connect(&self, config: ClientConfig) -> std::io::Result<TlsStream<TcpStream>> {
        connect(self.address, config).await
    }

    /// A request over HTTP/1.1 on a connection of its own, and the status and body of its answer.
    pub async fn http1(&self, identity: Option<&Pair>, head: &str, body: &str) -> std::io::Result<(u16, String)> {
        let mut stream = self.connect(self.client("http/1.1", identity)).await?;
        let length = body.len();
        let text = format!("{head}\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}");
        stream.write_all(text.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        let answer = String::from_utf8(answer).unwrap();
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| std::io::Error::other(format!("no answer but `{answer}`")))?;
        let (_, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
        Ok((status, body.to_owned()))
    }

    /// A look at a path without authentication.
    pub async fn look(&self, path: &str) -> (u16, String) {
        self.http1(None, &format!("GET {path} HTTP/1.1"), "").await.unwrap()
    }

    /// The certificate that a new connection gets.
    pub async fn served_certificate(&self) -> CertificateDer<'static> {
        let stream = self.connect(self.client("http/1.1", None)).await.unwrap();
        stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned()
    }

    /// Stops it and waits for its end.
    pub async fn end(mut self) {
        self.ended().await;
    }

    /// As [`Self::end`], with everything on disk still there.
    pub async fn ended(&mut self) {
        self.stop.cancel();
        self.served.take().unwrap().await.unwrap().unwrap();
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// A TLS client that trusts this authority, speaks this protocol, and shows this certificate.
pub fn client(authority: &Authority, alpn: &str, identity: Option<&Pair>) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(authority.pem.as_bytes()).unwrap())
        .unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some(pair) => {
            let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
            builder.with_client_auth_cert(vec![pair.der.clone()], key).unwrap()
        }
    };
    config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
    config
}

/// A TLS connection to `localhost` at this address.
pub async fn connect(address: SocketAddr, config: ClientConfig) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// Asks again until it holds; a failure says what was waited for.
pub async fn soon<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let deadline = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < deadline, "it never came to this: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

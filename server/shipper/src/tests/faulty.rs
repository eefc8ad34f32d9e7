//! A bucket that fails once, at the operation that a test says and in the way that it says; and that looks, after
//! each operation, whether any block has its `meta.json` without all that it lists.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use futures::stream::BoxStream;
use futures::{FutureExt, TryStreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};

/// How an operation fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Nothing is done.
    Refused,
    /// It is done, and the answer is lost.
    Unanswered,
    /// Nothing is done, and no answer comes.
    Stalled,
    /// Nothing is done, and the answer says that it is.
    Lied,
    /// It is done; what is read is something else.
    Mangled,
    /// A bug in what asks.
    Panicked,
}

impl Fault {
    pub(super) const ALL: [Self; 6] =
        [Self::Refused, Self::Unanswered, Self::Stalled, Self::Lied, Self::Mangled, Self::Panicked];
}

/// The bucket.
#[derive(Debug, Clone)]
pub(super) struct Faulty {
    pub(super) inner: Arc<InMemory>,
    /// The operations before the one that fails; `None`: all fail.
    at: Option<u64>,
    fault: Fault,
    pub(super) asked: Arc<AtomicU64>,
}

impl Faulty {
    pub(super) fn new(at: Option<u64>, fault: Fault) -> Self {
        Self { inner: Arc::default(), at, fault, asked: Arc::default() }
    }

    /// Names of all objects.
    pub(super) async fn names(&self) -> Vec<String> {
        let all: Vec<ObjectMeta> = self.inner.list(None).try_collect().await.unwrap();
        all.into_iter().map(|meta| meta.location.to_string()).collect()
    }

    /// Does an operation, or fails it. `lied` is what is answered then.
    async fn attempt<T>(&self, lied: Option<T>, done: impl Future<Output = Result<T>>) -> Result<T> {
        let number = self.asked.fetch_add(1, Ordering::Relaxed);
        let answer = match self.at.is_none_or(|at| number == at).then_some(self.fault) {
            None | Some(Fault::Mangled) => done.await,
            Some(Fault::Refused) => Err(refusal()),
            Some(Fault::Unanswered) => done.await.and_then(|_lost| Err(refusal())),
            Some(Fault::Stalled) => std::future::pending().await,
            Some(Fault::Panicked) => panic!("as the test wants it"),
            Some(Fault::Lied) => match lied {
                Some(lied) => Ok(lied),
                None => done.await,
            },
        };
        self.check_whole().await;
        answer
    }

    /// What has its `meta.json` is whole.
    pub(super) async fn check_whole(&self) {
        for name in self.names().await.iter().filter(|name| name.ends_with("/meta.json")) {
            let block = name.trim_end_matches("/meta.json");
            let meta = self.inner.get(&Path::from(&**name)).await.unwrap().bytes().await.unwrap();
            let meta: serde_json::Value = serde_json::from_slice(&meta).unwrap();
            for file in meta["thanos"]["files"].as_array().unwrap() {
                let path = Path::from(format!("{block}/{}", file["rel_path"].as_str().unwrap()));
                let found = self.inner.head(&path).await.unwrap_or_else(|_| panic!("{path} is missing"));
                assert!(file["size_bytes"].as_u64().is_none_or(|bytes| bytes == found.size), "{path}");
            }
        }
    }
}

fn refusal() -> Error {
    Error::Generic { store: "Faulty", source: "as the test wants it".into() }
}

fn put() -> Option<PutResult> {
    Some(PutResult { e_tag: None, version: None, extensions: Default::default() })
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a faulty bucket")
    }
}

#[derive(Debug)]
struct FaultyParts {
    bucket: Faulty,
    inner: Box<dyn MultipartUpload>,
}

#[async_trait]
impl MultipartUpload for FaultyParts {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (bucket, part) = (self.bucket.clone(), self.inner.put_part(data));
        async move { bucket.attempt(Some(()), part).await }.boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        self.bucket.attempt(put(), self.inner.complete()).await
    }

    async fn abort(&mut self) -> Result<()> {
        self.bucket.attempt(Some(()), self.inner.abort()).await
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(&self, at: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.attempt(put(), self.inner.put_opts(at, payload, options)).await
    }

    async fn put_multipart_opts(
        &self,
        at: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let inner = self.attempt(None, self.inner.put_multipart_opts(at, options)).await?;
        Ok(Box::new(FaultyParts { bucket: self.clone(), inner }))
    }

    async fn get_opts(&self, at: &Path, options: GetOptions) -> Result<GetResult> {
        let is_now = self.at.is_none_or(|at| at == self.asked.load(Ordering::Relaxed));
        if self.fault == Fault::Mangled && is_now && !options.head {
            let (portal, page) = (InMemory::new(), Path::from("page"));
            portal.put(&page, PutPayload::from_static(b"<html>Welcome to our network</html>")).await?;
            return self.attempt(None, portal.get_opts(&page, options)).await;
        }
        self.attempt(None, self.inner.get_opts(at, options)).await
    }

    fn delete_stream(&self, _: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        panic!("nothing is deleted in a bucket");
    }

    fn list(&self, _: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        panic!("a bucket of years isn't listed");
    }

    async fn list_with_delimiter(&self, _: Option<&Path>) -> Result<ListResult> {
        panic!("a bucket of years isn't listed");
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        panic!("nothing is copied in a bucket");
    }
}

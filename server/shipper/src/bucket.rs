//! A bucket, asked with a time limit: one that never answers is a fault like any other. What it says is cut short, and
//! of what S3 and its like answer only code and message are shown: the rest repeats parts of the signed request.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt, PutPayload};
use silverback_model::printable::Printable;
use tokio::time::timeout;

/// Of what a bucket says, in characters.
const TOLD_CHARS_MAX: usize = 300;

/// Why a bucket didn't do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BucketError {
    /// As it said, or as the way to it did.
    #[error("{}", told(.0))]
    Refused(#[from] object_store::Error),
    /// It said nothing in time.
    #[error("the bucket did not answer within {0:?}")]
    Stalled(Duration),
    /// It took an object, and has another one.
    #[error("{path} has {found} in {bucket}, {wanted} bytes are wanted")]
    Wrong {
        /// Which bucket.
        bucket: Arc<str>,
        /// Which object.
        path: Path,
        /// How large it is there.
        found: ObjectSize,
        /// How large it should be.
        wanted: u64,
    },
    /// It says that it has an object, and gives out something else.
    #[error(
        "{bucket} says that it has {path}, and gives out something else: {what}. Is this the object storage, or a proxy, \
         a portal or another service that answers whatever it is asked?"
    )]
    Foreign {
        /// Which bucket.
        bucket: Arc<str>,
        /// Which object.
        path: Path,
        /// What is wrong with it.
        what: &'static str,
    },
}

/// How large an object is in a bucket; `None`: it isn't there.
#[derive(Debug)]
pub(crate) struct ObjectSize(pub(crate) Option<u64>);

impl std::fmt::Display for ObjectSize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(bytes) => write!(f, "{bytes} bytes"),
            None => f.write_str("no object"),
        }
    }
}

/// What an error says, in one line that repeats no secret.
pub(crate) fn told(error: &object_store::Error) -> String {
    short(&error.to_string())
}

fn short(text: &str) -> String {
    let element = |name: &str| {
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        rest.split_once(&format!("</{name}>")).map(|(inner, _)| inner)
    };
    // What follows is a document: S3's and Azure's have code and message in it, and a proxy's is for people.
    let told = match text.split_once('<') {
        None => text.to_owned(),
        Some((begin, _)) => {
            let parts = [element("Code"), element("Message")].into_iter().flatten();
            let told = std::iter::once(begin.trim_end()).chain(parts).collect::<Vec<_>>().join(" ");
            told.trim_end_matches(':').to_owned()
        }
    };
    let cut: String = told.chars().take(TOLD_CHARS_MAX).collect();
    let end = if cut.len() < told.len() { " …" } else { "" };
    format!("{}{end}", Printable(&cut))
}

/// A bucket, and how long a request may take with all its retries.
#[derive(Debug, Clone)]
pub(crate) struct Bucket {
    store: Arc<dyn ObjectStore>,
    /// What it is called in messages: its type, its name and its endpoint.
    name: Arc<str>,
    limit: Duration,
}

impl Bucket {
    pub(crate) const fn new(store: Arc<dyn ObjectStore>, name: Arc<str>, limit: Duration) -> Self {
        Self { store, name, limit }
    }

    /// That one of its objects isn't one that was uploaded.
    pub(crate) fn foreign(&self, path: &Path, what: &'static str) -> BucketError {
        BucketError::Foreign { bucket: Arc::clone(&self.name), path: path.clone(), what }
    }

    /// Whether it has an object of this size.
    pub(crate) async fn check_size(&self, path: &Path, wanted: u64) -> Result<(), BucketError> {
        match self.size(path).await? {
            Some(found) if found == wanted => Ok(()),
            found => {
                let (bucket, path) = (Arc::clone(&self.name), path.clone());
                Err(BucketError::Wrong { bucket, path, found: ObjectSize(found), wanted })
            }
        }
    }

    /// What an object has in it; `None`: it isn't there. It is no longer than `bytes_max`.
    pub(crate) async fn read(&self, path: &Path, bytes_max: usize) -> Result<Option<Vec<u8>>, BucketError> {
        let whole = async {
            let mut pieces = self.store.get(path).await?.into_stream();
            let mut bytes = Vec::new();
            while let Some(piece) = pieces.try_next().await? {
                if bytes.len() + piece.len() > bytes_max {
                    return Ok(None);
                }
                bytes.extend_from_slice(&piece);
            }
            Ok(Some(bytes))
        };
        match self.within(whole).await {
            Ok(Some(bytes)) => Ok(Some(bytes)),
            Ok(None) => Err(self.foreign(path, "it is larger than what was uploaded")),
            Err(BucketError::Refused(object_store::Error::NotFound { .. })) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// How large an object is; `None`: it isn't there.
    async fn size(&self, path: &Path) -> Result<Option<u64>, BucketError> {
        match self.within(self.store.head(path)).await {
            Ok(meta) => Ok(Some(meta.size)),
            Err(BucketError::Refused(object_store::Error::NotFound { .. })) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// Puts an object whole: it is there, or nothing is.
    pub(crate) async fn put(&self, path: &Path, bytes: Bytes) -> Result<(), BucketError> {
        self.within(self.store.put(path, PutPayload::from_bytes(bytes))).await.map(|_| ())
    }

    /// Begins an object that comes in parts, and isn't there before its end.
    pub(crate) async fn begin(&self, path: &Path) -> Result<Parts, BucketError> {
        self.within(self.store.put_multipart(path)).await.map(Parts)
    }

    /// The next part: all but the last are of one size.
    pub(crate) async fn put_part(&self, parts: &mut Parts, bytes: Bytes) -> Result<(), BucketError> {
        self.within(parts.0.put_part(PutPayload::from_bytes(bytes))).await
    }

    /// Makes an object of the parts.
    pub(crate) async fn complete(&self, parts: &mut Parts) -> Result<(), BucketError> {
        self.within(parts.0.complete()).await.map(|_| ())
    }

    /// Gives the parts up, so that nobody pays for them.
    pub(crate) async fn abort(&self, parts: &mut Parts) -> Result<(), BucketError> {
        self.within(parts.0.abort()).await
    }

    async fn within<T>(
        &self,
        asked: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, BucketError> {
        match timeout(self.limit, asked).await {
            Ok(answer) => Ok(answer?),
            Err(_elapsed) => Err(BucketError::Stalled(self.limit)),
        }
    }
}

/// An object that comes in parts.
#[derive(Debug)]
pub(crate) struct Parts(Box<dyn MultipartUpload>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_a_bucket_says_only_code_and_message_are_told() {
        let said = "Error performing PUT http://h/b - Server returned non-2xx status code: 403 Forbidden: \
            <?xml version=\"1.0\"?><Error><Code>SignatureDoesNotMatch</Code><Message>It does not.</Message>\
            <CanonicalRequest>x-amz-security-token:hunter2</CanonicalRequest></Error>";
        let told = short(said);
        assert!(told.ends_with("403 Forbidden: SignatureDoesNotMatch It does not."), "{told}");
        assert!(!told.contains("hunter2"), "{told}");
        assert_eq!(short("<Error>hunter2"), "");
        assert_eq!(
            short("status code: 502 Bad Gateway: <!doctype html><html>sorry"),
            "status code: 502 Bad Gateway"
        );
    }

    #[test]
    fn what_is_long_or_not_printable_is_cut_and_escaped() {
        assert_eq!(short("a\u{1b}[2Jb\n"), "a\\u001b[2Jb\\n");
        let told = short(&"ä".repeat(10_000));
        assert_eq!(told, format!("{} …", "ä".repeat(TOLD_CHARS_MAX)));
    }

    #[test]
    fn a_bucket_that_never_answers_is_a_fault() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let bucket = Bucket::new(
            Arc::new(object_store::memory::InMemory::new()),
            "a".into(),
            Duration::from_millis(10),
        );
        let never = std::future::pending::<object_store::Result<()>>();
        let fault = runtime.block_on(bucket.within(never)).unwrap_err();
        assert_eq!(fault.to_string(), "the bucket did not answer within 10ms");
    }
}

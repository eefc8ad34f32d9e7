//! What a node answers in JSON: `{"data": …}`.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use crate::connection::ConnectionArgs;
use crate::error::{Context, Done};

#[derive(Deserialize)]
struct Answer<T> {
    data: T,
}

/// Asks for what a path has.
pub(crate) async fn get<T: DeserializeOwned>(path: &str, connection: &ConnectionArgs) -> Done<T> {
    read(&connection.connect().await?.get(path).await?)
}

/// What an answer's body says.
pub(crate) fn read<T: DeserializeOwned>(body: &[u8]) -> Done<T> {
    let Answer { data } = serde_json::from_slice(body).context(broken)?;
    Ok(data)
}

/// Items as they came, for programs, each with what is known of it.
pub(crate) fn read_each<T: DeserializeOwned>(items: Vec<Json>) -> Done<Vec<(T, Json)>> {
    let read = |json: Json| Ok((T::deserialize(&json)?, json));
    items.into_iter().map(read).collect::<Result<_, serde_json::Error>>().context(broken)
}

fn broken() -> String {
    "the node's answer is broken".to_owned()
}

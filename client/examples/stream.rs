//! Writes waves over a stream: `stream [SERIES [SAMPLES [ADDRESS]]]`, 1,000 series of 1,000 samples
//! each by default, 1 ms apart, from now on.

use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use silverback_client::Client;

type Error = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> ExitCode {
    match stream(&std::env::args().skip(1).collect::<Vec<_>>()).await {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("stream: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn stream(arguments: &[String]) -> Result<String, Error> {
    let argument = |at: usize, otherwise: &'static str| arguments.get(at).map_or(otherwise, String::as_str);
    let (series_count, samples): (u32, i64) = (argument(0, "1000").parse()?, argument(1, "1000").parse()?);
    let client = Client::connect(argument(2, "http://127.0.0.1:9009")).await?;

    let writer = client.writer();
    // Each series is named once; its handle is cheap to use and to keep.
    let named = (0..series_count).map(|n| writer.series("example_wave", [("n", n.to_string())]));
    let series = named.collect::<Result<Vec<_>, _>>()?;
    let start_ms = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as i64;
    let began = Instant::now();
    for sample in 0..samples {
        for (n, series) in series.iter().enumerate() {
            let value = (sample as f64 / 100.0 + n as f64).sin();
            // Waits only while as many samples are in flight as may be.
            writer.write(series, start_ms + sample, value).await?;
        }
    }
    let flushed = writer.close().await?;

    let rate = flushed.samples_written as f64 / began.elapsed().as_secs_f64();
    for refusal in flushed.refusals.iter().take(10) {
        eprintln!("{} samples of {:?} refused: {}", refusal.samples, refusal.labels, refusal.reason);
    }
    Ok(format!(
        "{} samples written, {rate:.0} each second; durable: {:?}",
        flushed.samples_written, flushed.durability
    ))
}

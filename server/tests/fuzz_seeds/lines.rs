//! Lines of text: good ones of every kind, odd ones, and bad ones.

use crate::{START_MS, Seeds};

/// Prometheus' text format.
pub(crate) fn prometheus() -> Seeds {
    let usual = format!(
        "# HELP up Whether.\n# TYPE up gauge\nup{{job=\"node\",instance=\"a:9100\"}} 1 {START_MS}\n\
         up{{job=\"node\",instance=\"b:9100\"}} 0 {START_MS}\nroom_temperature 21.5\n"
    );
    let openmetrics =
        "# TYPE a counter\na_total{x=\"1\"} 3 1700000000.123 # {trace_id=\"y\"} 0.5 1700000000\n# EOF\n";
    let odd = "{\"my.metric\", \"label.x\"=\"v\\\\\\\"\\n\",} NaN\r\n\t rule:sum { a = \"}#\" } +Inf -1.5\ndisk.used -Inf -9999999999\n";
    let bad =
        "up\nup one\nup{a=\"b\nup{a=b} 1\n{a=\"b\"} 1\nup{a=\"1\",a=\"2\"} 1\n\"x\" 1\nup 1 2 3\n9 9\ngood 1";
    let text = |text: &str| text.as_bytes().to_vec();
    vec![("bad", text(bad)), ("odd", text(odd)), ("openmetrics", text(openmetrics)), ("usual", text(&usual))]
}

/// InfluxDB's line protocol.
pub(crate) fn influx() -> Seeds {
    let usual = format!(
        "cpu,cpu=cpu0,host=a usage_idle=99.5,usage_user=0.25 {START_MS}\nmem,host=a used=12345i,free=7u,swap=f {START_MS}\n"
    );
    let strings = "docker,name=x status=\"up, \\\"since\\\" \\\\ 3\",n=1i\nlog line=\"two\nlines\",n=2\n";
    let odd = "  a\\ b\\,c\\=d,t\\ a\\,g\\=h=v\\ w\\,x\\=y\\\\z f\\ g\\,h\\=i=1e3   -5  \r\n# f=\"\n\nm,empty=,\"q\"=\"r\" f=T\n";
    let bad = "m\nm,a f=1\nm f=\nm f=NaN\nm f=1.5i\nm f=\"a\"b\nm f=1 x\n,a=b f=1\nm,__name__=x f=1\nm,a=1,a=2 f=1\nm f=\"open\nm f=1";
    let text = |text: &str| text.as_bytes().to_vec();
    vec![("bad", text(bad)), ("odd", text(odd)), ("strings", text(strings)), ("usual", text(&usual))]
}

"""Arbitrary state: how long each aircraft stays away from New York, with timers.

usage: python -m spark_examples.turnaround HOST:PORT [--rows 10000]

The state of an aircraft is its last departure. Each next departure ends a turnaround; a timer
in event time reports aircraft that have not been seen for --gone-after hours. Uses
transformWithStateInPandas of Spark 4 where it is, and applyInPandasWithState otherwise.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from spark_examples import airline
from spark_examples.airline import ExampleFailed, console
from spark_examples.session import TIMEOUTS, fits, kafka_session, run

try:
    from pyspark.sql.streaming import StatefulProcessor
except ImportError:  # Spark 3.5
    StatefulProcessor = None  # type: ignore[assignment,misc]

RESULT = "tailnum STRING, event STRING, at TIMESTAMP, hours DOUBLE, departures INT"
STATE = "last_ms LONG, departures INT"
HOUR_MS = 3_600_000
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def main() -> None:
    parser = airline.parser(__doc__, rows=10_000)
    parser.add_argument("--topic", help="read this topic as it is, instead of publishing flights")
    parser.add_argument("--gone-after", type=int, default=48, metavar="HOURS")
    parser.add_argument("--with-pandas-state", action="store_true", help="Spark 3's way")
    arguments = parser.parse_args()
    bootstrap = arguments.bootstrap
    flights = airline.flights(arguments.rows)
    airline.require(bootstrap, *([arguments.topic] if arguments.topic else []))
    topic = arguments.topic or airline.create_topic(bootstrap, airline.unique("flights"))
    if not arguments.topic:
        records = airline.as_records(flights, "tailnum")
        airline.publish(bootstrap, topic, records, len(flights))
    spark = kafka_session("turnaround", **{"spark.sql.streaming.stateStore.providerClass": ROCKSDB})
    old_way = arguments.with_pandas_state or StatefulProcessor is None
    with tempfile.TemporaryDirectory() as scratch:
        departures = departures_of(spark, bootstrap, topic)
        events = by_state(departures, arguments.gone_after, old_way)
        found = run_until_read(spark, events, Path(scratch))
    spark.stop()
    turnarounds = found[found["event"] == "turnaround"]
    gone = found[found["event"] == "gone"]
    if not arguments.topic:
        airline.delete_topics(bootstrap, topic)
        check(turnarounds, gone, flights, arguments.gone_after)
    console.print(turnarounds["hours"].describe().round(1).to_string())
    print(f"turnaround: {len(turnarounds)} turnarounds, {len(gone)} aircraft gone")


def departures_of(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .options(**TIMEOUTS)
        .load()
    )
    flight = fits(f.from_json(f.col("value").cast("string"), airline.FLIGHT), "carrier")
    return (
        records.select(flight.alias("flight"))
        .select("flight.tailnum", "flight.time_hour")
        .where("tailnum IS NOT NULL")
        .withWatermark("time_hour", "1 hour")
    )


def by_state(departures: DataFrame, gone_after_h: int, old_way: bool) -> DataFrame:
    aircraft = departures.groupBy("tailnum")
    if old_way:
        function = with_pandas_state(gone_after_h * HOUR_MS)
        return aircraft.applyInPandasWithState(
            function, RESULT, STATE, "append", "EventTimeTimeout"
        )
    return aircraft.transformWithStateInPandas(
        statefulProcessor=Turnarounds(gone_after_h * HOUR_MS),
        outputStructType=RESULT,
        outputMode="append",
        timeMode="eventTime",
    )


def run_until_read(spark: SparkSession, events: DataFrame, output: Path) -> pd.DataFrame:
    (
        events.writeStream.format("parquet")
        .option("path", str(output / "events"))
        .option("checkpointLocation", str(output / "checkpoint"))
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )
    return spark.read.parquet(str(output / "events")).toPandas()


if StatefulProcessor is not None:

    class Turnarounds(StatefulProcessor):
        """The last departure of one aircraft, and a timer for when it counts as gone."""

        def __init__(self, gone_after_ms: int):
            self.gone_after_ms = gone_after_ms

        def init(self, handle: Any) -> None:
            self.handle = handle
            self.state = handle.getValueState("last", STATE)

        def handleInputRows(
            self, key: tuple[str], rows: Iterator[pd.DataFrame], timerValues: Any
        ) -> Iterator[pd.DataFrame]:
            last = self.state.get() if self.state.exists() else None
            times_ms = departure_times_ms(rows)
            found, last_ms, count = turnarounds(key[0], times_ms, last)
            self.state.update((last_ms, count))
            for timer_ms in list(self.handle.listTimers()):
                self.handle.deleteTimer(timer_ms)
            self.handle.registerTimer(last_ms + self.gone_after_ms)
            yield found

        def handleExpiredTimer(
            self, key: tuple[str], timerValues: Any, expiredTimerInfo: Any
        ) -> Iterator[pd.DataFrame]:
            last_ms, count = self.state.get()
            self.state.clear()
            yield gone(key[0], last_ms, count)

        def close(self) -> None:
            pass


def with_pandas_state(gone_after_ms: int) -> Any:
    """The same for Spark 3's applyInPandasWithState."""

    def step(key: tuple[str], rows: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        last = state.get if state.exists else None
        if state.hasTimedOut:
            state.remove()
            yield gone(key[0], *last)
            return
        found, last_ms, count = turnarounds(key[0], departure_times_ms(rows), last)
        state.update((last_ms, count))
        due_ms = last_ms + gone_after_ms
        state.setTimeoutTimestamp(max(due_ms, state.getCurrentWatermarkMs() + 1))
        yield found

    return step


def departure_times_ms(rows: Iterator[pd.DataFrame]) -> list[int]:
    times = pd.concat([part["time_hour"] for part in rows])
    return sorted(int(time.timestamp() * 1000) for time in times)


def turnarounds(
    tailnum: str, times_ms: list[int], last: tuple[int, int] | None
) -> tuple[pd.DataFrame, int, int]:
    """One row per departure after the first; the newest departure, and how many there were."""
    previous_ms, count = last or (None, 0)
    rows = []
    for time_ms in times_ms:
        count += 1
        if previous_ms is not None:
            hours = (time_ms - previous_ms) / HOUR_MS
            rows.append((tailnum, "turnaround", timestamp(time_ms), hours, count))
        previous_ms = time_ms
    assert previous_ms is not None
    return pd.DataFrame(rows, columns=COLUMNS), previous_ms, count


def gone(tailnum: str, last_ms: int, count: int) -> pd.DataFrame:
    row = (tailnum, "gone", timestamp(last_ms), None, count)
    return pd.DataFrame([row], columns=COLUMNS)


def timestamp(time_ms: int) -> pd.Timestamp:
    return pd.Timestamp(time_ms, unit="ms", tz="UTC")


COLUMNS = ["tailnum", "event", "at", "hours", "departures"]


def check(
    found: pd.DataFrame, gone: pd.DataFrame, flights: pd.DataFrame, gone_after_h: int
) -> None:
    """As many turnarounds, and as long together, as pandas finds; only those gone that are."""
    known = flights.dropna(subset=["tailnum"])
    times = pd.to_datetime(known["time_hour"], utc=True)
    by_plane = times.groupby(known["tailnum"])
    hours = by_plane.apply(lambda own: own.sort_values().diff().dt.total_seconds().sum() / 3600)
    if len(found) != len(known) - len(by_plane) or abs(found["hours"].sum() - hours.sum()) > 1:
        raise ExampleFailed(
            f"{len(found)} turnarounds were found, not {len(known) - len(by_plane)}"
        )
    last = by_plane.max()
    watermark = times.max() - pd.Timedelta(hours=1)
    # A timer set exactly at the watermark fires in Spark 4, and not yet in Spark 3.
    due = last[last + pd.Timedelta(hours=gone_after_h) < watermark]
    just_due = last[last + pd.Timedelta(hours=gone_after_h) <= watermark]
    if not set(due.index) <= set(gone["tailnum"]) <= set(just_due.index):
        raise ExampleFailed(f"{len(gone)} aircraft are reported as gone, not {len(due)}")


if __name__ == "__main__":
    run("turnaround", main)

"""Live view: a replay of flights in event time, and a picture of their delays while it runs.

usage: python -m spark_examples.live_view HOST:PORT [--rows 8000] [--speed 7200] [--picture PNG]

Flights are published when they depart, --speed seconds of 2013 in each second. Spark averages the
delay by airport and hour as they come, and the picture is drawn again after every micro-batch, so
open it in a viewer that reloads.
"""

import os
import tempfile
import threading
import time
from pathlib import Path
from zoneinfo import ZoneInfo

import matplotlib
import pandas as pd
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import StreamingQuery
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from spark_examples import airline
from spark_examples.airline import ExampleFailed, console
from spark_examples.session import TIMEOUTS, fits, kafka_session, run

matplotlib.use("Agg")

from matplotlib import dates, pyplot
from matplotlib.axis import Axis

COLORS = {"EWR": "#b5523b", "JFK": "#2f6690", "LGA": "#2a7f62"}
NEW_YORK = ZoneInfo("America/New_York")
TICK_S = 0.1


def main() -> None:
    parser = airline.parser(__doc__, rows=8_000)
    parser.add_argument("--speed", type=float, default=7200, help="seconds of 2013 in a second")
    parser.add_argument("--picture", default="live.png", type=Path, help="the PNG to draw")
    parser.add_argument("--topic", help="watch this topic, for --seconds, instead of publishing")
    parser.add_argument("--seconds", type=float, default=60, help="how long to watch --topic")
    arguments = parser.parse_args()
    if arguments.speed <= 0:
        raise ExampleFailed("--speed must be more than 0")
    bootstrap = arguments.bootstrap
    airline.require(bootstrap, *([arguments.topic] if arguments.topic else []))
    topic = arguments.topic or airline.create_topic(bootstrap, airline.unique("flights"))
    spark = kafka_session("live-view")
    view = View(arguments.picture)
    with tempfile.TemporaryDirectory() as scratch:
        query = start(spark, bootstrap, topic, view, scratch)
        if arguments.topic:
            query.awaitTermination(arguments.seconds)
        else:
            published = replay(bootstrap, topic, airline.flights(arguments.rows), arguments.speed)
            wait_for(query, view, published)
        query.stop()
    spark.stop()
    if not arguments.topic:
        airline.delete_topics(bootstrap, topic)
    print(f"live_view: {view.flights} flights seen, {view.drawn} pictures drawn: {view.picture}")


def replay(bootstrap: str, topic: str, flights: pd.DataFrame, speed: float) -> int:
    """Publish each flight at its scheduled minute of the replay."""
    minutes = (flights["sched_dep_time"] % 100).to_numpy()
    due_ms = airline.event_times_ms(flights).to_numpy() + minutes * 60_000
    order = due_ms.argsort(kind="stable")
    records = list(airline.as_records(flights, "origin"))
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    first_ms, started = int(due_ms[order[0]]), time.monotonic()
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,}"))
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        task = progress.add_task("Departing", total=len(records))
        for place in order:
            wait_s = (due_ms[place] - first_ms) / 1000 / speed - (time.monotonic() - started)
            if wait_s > TICK_S:
                time.sleep(wait_s)
            record = records[place]
            producer.produce(topic, record.value, record.key, timestamp=record.time_ms)
            producer.poll(0)
            now = pd.Timestamp(int(due_ms[place]), unit="ms", tz=NEW_YORK)
            progress.update(task, advance=1, description=f"Departing {now:%d %b %Y %H:%M}")
        if producer.flush(60):
            raise ExampleFailed(f"topic {topic} did not take all flights within a minute")
    return len(records)


def start(
    spark: SparkSession, bootstrap: str, topic: str, view: "View", directory: str
) -> StreamingQuery:
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .options(**TIMEOUTS)
        .load()
    )
    flight = fits(f.from_json(f.col("value").cast("string"), airline.FLIGHT), "carrier")
    delays = (
        records.select(flight.alias("flight"))
        .select("flight.*")
        .groupBy("origin", f.window("time_hour", "1 hour").start.alias("hour"))
        .agg(f.count("*").alias("flights"), f.avg("dep_delay").alias("delay"))
    )
    return (
        delays.writeStream.outputMode("complete")
        .foreachBatch(view.take)
        .option("checkpointLocation", f"{directory}/checkpoint")
        .trigger(processingTime="1 second")
        .start()
    )


def wait_for(query: StreamingQuery, view: "View", published: int) -> None:
    """Until all that was published is in the picture."""
    deadline = time.monotonic() + 120
    while view.flights < published and time.monotonic() < deadline:
        if not query.isActive:
            query.awaitTermination()
        time.sleep(0.1)
    if view.flights != published:
        raise ExampleFailed(f"{view.flights} of {published} flights came through")


class View:
    """The picture, drawn from the newest result."""

    def __init__(self, picture: Path):
        self.picture = picture
        self.flights = 0
        self.drawn = 0
        self._lock = threading.Lock()

    def take(self, delays: DataFrame, number: int) -> None:
        frame: pd.DataFrame = delays.toPandas()
        if frame.empty:
            return
        with self._lock:
            self.draw(frame)
            self.drawn += 1
            self.flights = int(frame["flights"].sum())

    def draw(self, frame: pd.DataFrame) -> None:
        frame = frame.assign(hour=frame["hour"].dt.tz_localize("UTC").dt.tz_convert(NEW_YORK))
        figure, (above, below) = pyplot.subplots(
            2, 1, figsize=(10, 6), sharex=True, height_ratios=[3, 1], layout="constrained"
        )
        for origin, rows in frame.sort_values("hour").groupby("origin"):
            color = COLORS.get(origin, "#666666")
            # Hours without a flight, as at night, leave a gap.
            hourly = rows.set_index("hour")["delay"].asfreq("h")
            smooth = hourly.rolling(3, min_periods=1).mean().where(hourly.notna())
            above.plot(smooth.index, smooth, color=color, label=origin, linewidth=1.6)
        total = frame.groupby("hour")["flights"].sum()
        below.bar(total.index, total, width=1 / 26, color="#9a9a9a")
        above.axhline(0, color="#cccccc", linewidth=0.8, zorder=0)
        above.set_ylabel("mean departure delay\nof 3 hours, minutes")
        below.set_ylabel("flights an hour")
        below.set_xlabel("time in New York", loc="left")
        count = f"{int(frame['flights'].sum()):,}"
        above.set_title(f"Departures from New York, {count} flights so far", loc="left")
        # Above the axes, where no line can run through it.
        above.legend(loc="lower right", bbox_to_anchor=(1, 1), frameon=False, ncols=len(COLORS))
        label_times(below.xaxis)
        for axes in (above, below):
            axes.spines[["top", "right"]].set_visible(False)
        # Renamed when it is complete: a viewer that reloads never reads half a picture.
        unfinished = self.picture.with_suffix(".unfinished.png")
        figure.savefig(unfinished, dpi=110)
        pyplot.close(figure)
        os.replace(unfinished, self.picture)


def label_times(axis: Axis) -> None:
    locator = dates.AutoDateLocator(tz=NEW_YORK)
    formatter = dates.ConciseDateFormatter(locator, tz=NEW_YORK)
    # Days with their month: the first of January is no "Jan".
    formatter.formats[2] = formatter.zero_formats[2] = formatter.zero_formats[3] = "%d %b"
    formatter.offset_formats[2] = "%Y"
    axis.set_major_locator(locator)
    axis.set_major_formatter(formatter)


if __name__ == "__main__":
    run("live_view", main)

"""Stream-stream join: flights with the weather at their airport and hour, late weather too.

usage: python -m spark_examples.weather_join HOST:PORT [--rows 8000]

Both streams have a watermark, so a flight waits for its weather for two hours of event time and
then is written without. Some weather comes so late that only that remains; the result is compared
with pandas.
"""

import tempfile
from pathlib import Path

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from spark_examples import airline
from spark_examples.airline import ExampleFailed, console
from spark_examples.session import TIMEOUTS, fits, kafka_session, run

WEATHER = "origin STRING, time_hour TIMESTAMP, wind_speed DOUBLE, visib DOUBLE, precip DOUBLE"
LATE = "2013-01-02T18:00:00Z"
"""The weather of this hour is published when its flights have been given up."""


def main() -> None:
    parser = airline.parser(__doc__, rows=8_000)
    parser.add_argument("--topics", help="FLIGHTS,WEATHER: read these as they are")
    arguments = parser.parse_args()
    topics = arguments.topics.split(",") if arguments.topics else []
    if len(topics) not in (0, 2):
        raise ExampleFailed("--topics needs two names with a comma between them")
    airline.require(arguments.bootstrap, *topics)
    with tempfile.TemporaryDirectory() as scratch:
        spark = kafka_session("weather-join")
        join = Join(spark, arguments.bootstrap, Path(scratch))
        if topics:
            join.flights, join.weather = topics
            join.run_until_read()
            found = join.result()
        else:
            found = publish_and_join(join, arguments.rows)
        spark.stop()
    with_weather = int(found["wind_speed"].notna().sum())
    print(f"weather_join: {len(found)} flights joined, {with_weather} of them with wind known")


def publish_and_join(join: "Join", rows: int) -> pd.DataFrame:
    bootstrap = join.bootstrap
    flights = airline.flights(rows)
    weather = airline.table("weather").sort_values("time_hour", kind="stable")
    weather = weather[weather["time_hour"] <= flights["time_hour"].max()]
    late = weather["time_hour"] == LATE
    join.flights = airline.create_topic(bootstrap, airline.unique("flights"))
    join.weather = airline.create_topic(bootstrap, airline.unique("weather"))
    for frame, topic in ((flights, join.flights), (weather[~late], join.weather)):
        airline.publish(bootstrap, topic, airline.as_records(frame, "origin"), len(frame))
    join.run_until_read()
    airline.publish(bootstrap, join.weather, airline.as_records(weather[late], "origin"), sum(late))
    join.run_until_read()
    found = join.result()
    airline.delete_topics(bootstrap, join.flights, join.weather)
    check(found, flights, weather[~late])
    return found


def check(found: pd.DataFrame, flights: pd.DataFrame, weather: pd.DataFrame) -> None:
    """What Spark joined is what pandas joins, for all flights that the watermark let go."""
    keys = ["origin", "time_hour"]
    columns = [*keys, "carrier", "flight", "wind_speed"]
    found = found.assign(time_hour=found["time_hour"].dt.strftime("%Y-%m-%dT%H:%M:%SZ"))
    expected = flights.merge(weather[[*keys, "wind_speed"]], on=keys, how="left")
    # A flight without weather, and still waited for, is in no file yet.
    pending = (~expected.set_index(keys).index.isin(weather.set_index(keys).index)) & (
        pd.to_datetime(expected["time_hour"])
        > pd.to_datetime(found["time_hour"]).max() - pd.Timedelta(hours=6)
    )
    open_ = len(expected) - len(found)
    if not 0 <= open_ <= pending.sum():
        raise ExampleFailed(f"{len(found)} flights were joined of {len(expected)}")
    both = found[columns].merge(expected[columns], on=columns, how="left", indicator=True)
    different = int((both["_merge"] != "both").sum())
    if different:
        raise ExampleFailed(f"{different} flights have other weather than in pandas")
    console.print(f"As pandas joins them; {open_} flights still wait for their weather.")


class Join:
    """The join's query, which goes on from its checkpoint when it is run again."""

    def __init__(self, spark: SparkSession, bootstrap: str, output: Path):
        self.spark = spark
        self.bootstrap = bootstrap
        self.output = output
        self.flights = self.weather = ""

    def run_until_read(self) -> None:
        flights = self.parsed(self.flights, airline.FLIGHT, "2 hours").alias("flight")
        weather = self.parsed(self.weather, WEATHER, "2 hours").alias("weather")
        same = f.expr("flight.origin = weather.origin AND flight.time_hour = weather.time_hour")
        joined = flights.join(weather, same, "left_outer").select(
            "flight.*", "weather.wind_speed", "weather.visib", "weather.precip"
        )
        (
            joined.writeStream.format("parquet")
            .option("path", str(self.output / "joined"))
            .option("checkpointLocation", str(self.output / "checkpoint"))
            .trigger(availableNow=True)
            .start()
            .awaitTermination()
        )

    def parsed(self, topic: str, schema: str, late_by: str) -> DataFrame:
        records = (
            self.spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self.bootstrap)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .options(**TIMEOUTS)
            .load()
        )
        value = fits(f.from_json(f.col("value").cast("string"), schema), "time_hour")
        return (
            records.select(value.alias("row")).select("row.*").withWatermark("time_hour", late_by)
        )

    def result(self) -> pd.DataFrame:
        return self.spark.read.parquet(str(self.output / "joined")).toPandas()


if __name__ == "__main__":
    run("weather_join", main)

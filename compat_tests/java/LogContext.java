package org.apache.kafka.common.utils;

/** The class under the name that LocalTieredStorage of Kafka 4.3.1 knows; 4.4.0 has moved it. */
public class LogContext extends org.apache.kafka.common.utils.internals.LogContext {
    public LogContext(String logPrefix) {
        super(logPrefix);
    }

    public LogContext() {
        super();
    }
}

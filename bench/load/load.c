/* Load for a Kafka node, over librdkafka: `load MODE name=value ...`; one JSON line on stdout.
 *
 *   batched     one producer, batches as librdkafka forms them with linger.ms=5; as fast as it can, or `rate` records a
 *               second
 *   single      one record a request, pipelined, over `connections` producers (each has a connection of its own)
 *   sync        one record a request, one in flight
 *   consume     reads `records` records from the beginning, by assignment, without a group
 *   latency     produces `rate` records a second for `seconds` and consumes them in the same process
 *   transactions  `producers` at once, each `transactions` of `records` records; as fast as they can, or `rate`
 *               transactions a second all together; the latencies are those of commits
 *   steady      one producer as fast as it can for `seconds`, in transactions committed every `commit_ms`, or plain if 0
 *   first-ack   waits for the port to open, then for one acknowledged record on every partition; prints when, on the
 *               monotonic clock
 *
 * A Python client would be the bottleneck of most of these. The prototypes below are the few functions of librdkafka's
 * public C API that are used here, so that the library inside the confluent-kafka wheel is enough and no header is needed.
 *
 * Connecting, metadata and the producer id come before the clock starts: a first record is acknowledged on every
 * connection, and only what follows is measured.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* ---- librdkafka ---- */

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_topic_conf_s rd_kafka_topic_conf_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;
typedef struct rd_kafka_op_s rd_kafka_event_t;
typedef struct rd_kafka_error_s rd_kafka_error_t;
typedef struct {
    int err;
    rd_kafka_topic_t *rkt;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *opaque;
} rd_kafka_message_t;

enum { PRODUCER = 0, CONSUMER = 1 };
enum { CONF_OK = 0 };
enum { MSG_COPY = 0x2 };
enum { EVENT_DR = 0x1, EVENT_ERROR = 0x8 };
enum { ERR_QUEUE_FULL = -184, ERR_PARTITION_EOF = -191 };
#define OFFSET_BEGINNING (-2)
#define IDEMPOTENT_WINDOW 5

extern rd_kafka_conf_t *rd_kafka_conf_new(void);
extern int rd_kafka_conf_set(rd_kafka_conf_t *, const char *, const char *, char *, size_t);
extern void rd_kafka_conf_set_events(rd_kafka_conf_t *, int);
extern rd_kafka_t *rd_kafka_new(int, rd_kafka_conf_t *, char *, size_t);
extern void rd_kafka_destroy(rd_kafka_t *);
extern rd_kafka_topic_t *rd_kafka_topic_new(rd_kafka_t *, const char *, rd_kafka_topic_conf_t *);
extern int rd_kafka_produce(rd_kafka_topic_t *, int32_t, int, void *, size_t, const void *, size_t, void *);
extern int rd_kafka_produce_batch(rd_kafka_topic_t *, int32_t, int, rd_kafka_message_t *, int);
extern int rd_kafka_last_error(void);
extern const char *rd_kafka_err2str(int);
extern const char *rd_kafka_version_str(void);
extern rd_kafka_queue_t *rd_kafka_queue_get_main(rd_kafka_t *);
extern rd_kafka_queue_t *rd_kafka_queue_new(rd_kafka_t *);
extern rd_kafka_event_t *rd_kafka_queue_poll(rd_kafka_queue_t *, int);
extern int rd_kafka_event_type(const rd_kafka_event_t *);
extern const rd_kafka_message_t *rd_kafka_event_message_next(rd_kafka_event_t *);
extern void rd_kafka_event_destroy(rd_kafka_event_t *);
extern int rd_kafka_consume_start_queue(rd_kafka_topic_t *, int32_t, int64_t, rd_kafka_queue_t *);
extern ssize_t rd_kafka_consume_batch_queue(rd_kafka_queue_t *, int, rd_kafka_message_t **, size_t);
extern rd_kafka_message_t *rd_kafka_consume_queue(rd_kafka_queue_t *, int);
extern void rd_kafka_message_destroy(rd_kafka_message_t *);
extern int rd_kafka_metadata(rd_kafka_t *, int, rd_kafka_topic_t *, const void **, int);
extern void rd_kafka_metadata_destroy(const void *);

extern rd_kafka_error_t *rd_kafka_init_transactions(rd_kafka_t *, int);
extern rd_kafka_error_t *rd_kafka_begin_transaction(rd_kafka_t *);
extern rd_kafka_error_t *rd_kafka_commit_transaction(rd_kafka_t *, int);
extern const char *rd_kafka_error_string(const rd_kafka_error_t *);

/* ---- arguments ---- */

static int arg_count;
static char **arg_values;

static void die(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("load: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

static const char *text(const char *name, const char *fallback) {
    size_t length = strlen(name);
    for (int i = 2; i < arg_count; i++)
        if (!strncmp(arg_values[i], name, length) && arg_values[i][length] == '=') return arg_values[i] + length + 1;
    if (!fallback) die("%s= is missing", name);
    return fallback;
}

static long number(const char *name, long fallback) {
    const char *value = text(name, "");
    return *value ? atol(value) : fallback;
}

/* ---- time and figures ---- */

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static double cpu_seconds(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void sleep_until(int64_t at_ns) {
    struct timespec at = {at_ns / 1000000000LL, at_ns % 1000000000LL};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

static int64_t started_ns;
static double started_cpu;

static void start_clock(void) {
    started_cpu = cpu_seconds();
    started_ns = now_ns();
}

static int ascending(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double percentile_us(const int64_t *sorted, long count, double share) {
    long index = (long)(share * count);
    return sorted[index < count ? index : count - 1] / 1e3;
}

static void report(long records, long long bytes, int64_t *latencies, long latency_count) {
    double seconds = (now_ns() - started_ns) / 1e9, cpu = cpu_seconds() - started_cpu;
    printf("{\"seconds\": %.6f, \"records\": %ld, \"bytes\": %lld, \"rate\": %.1f, \"mb_per_second\": %.3f, "
           "\"client_cpu_seconds\": %.4f",
           seconds, records, bytes, records / seconds, bytes / seconds / 1e6, cpu);
    if (latency_count) {
        double sum = 0;
        for (long i = 0; i < latency_count; i++) sum += latencies[i];
        qsort(latencies, latency_count, sizeof *latencies, ascending);
        printf(", \"latency_us\": {\"mean\": %.1f, \"p50\": %.1f, \"p90\": %.1f, \"p99\": %.1f, \"p99.9\": %.1f, "
               "\"max\": %.1f, \"count\": %ld}",
               sum / latency_count / 1e3, percentile_us(latencies, latency_count, 0.5),
               percentile_us(latencies, latency_count, 0.9), percentile_us(latencies, latency_count, 0.99),
               percentile_us(latencies, latency_count, 0.999), latencies[latency_count - 1] / 1e3, latency_count);
    }
    printf(", \"librdkafka\": \"%s\"}\n", rd_kafka_version_str());
    fflush(stdout);
}

/* ---- clients ---- */

static void set(rd_kafka_conf_t *conf, const char *name, const char *value) {
    char error[256];
    if (rd_kafka_conf_set(conf, name, value, error, sizeof error) != CONF_OK) die("%s=%s: %s", name, value, error);
}

static rd_kafka_conf_t *client_conf(void) {
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", text("brokers", NULL));
    set(conf, "socket.nagle.disable", "true");
    set(conf, "broker.address.family", "v4");
    set(conf, "log_level", "3");
    return conf;
}

typedef struct {
    rd_kafka_t *rk;
    rd_kafka_topic_t *rkt;
    rd_kafka_queue_t *queue;
    int32_t partition;
    long to_send, to_hear;
    int64_t last_offset;
} producer_t;

static void check_delivery(const rd_kafka_message_t *message) {
    if (message->err) die("a record was not acknowledged: %s", rd_kafka_err2str(message->err));
}

/* Takes one event; the number of acknowledged records in it, or -1 where none came in time. */
static long hear(producer_t *p, int timeout_ms) {
    rd_kafka_event_t *event = rd_kafka_queue_poll(p->queue, timeout_ms);
    if (!event) return -1;
    long heard = 0;
    if (rd_kafka_event_type(event) == EVENT_DR) {
        const rd_kafka_message_t *message;
        while ((message = rd_kafka_event_message_next(event))) {
            check_delivery(message);
            p->last_offset = message->offset;
            heard++;
        }
    }
    rd_kafka_event_destroy(event);
    p->to_hear -= heard;
    return heard;
}

static void know_topic(rd_kafka_t *rk, rd_kafka_topic_t *rkt) {
    const void *metadata;
    int err = rd_kafka_metadata(rk, 0, rkt, &metadata, 30000);
    if (err) die("no metadata: %s", rd_kafka_err2str(err));
    rd_kafka_metadata_destroy(metadata);
}

static void open_producer(producer_t *p, rd_kafka_conf_t *conf, int32_t partition) {
    char error[256];
    set(conf, "acks", "all");
    set(conf, "enable.idempotence", number("idempotence", 0) ? "true" : "false");
    rd_kafka_conf_set_events(conf, EVENT_DR | EVENT_ERROR);
    memset(p, 0, sizeof *p);
    p->partition = partition;
    p->rk = rd_kafka_new(PRODUCER, conf, error, sizeof error);
    if (!p->rk) die("no producer: %s", error);
    p->rkt = rd_kafka_topic_new(p->rk, text("topic", NULL), NULL);
    p->queue = rd_kafka_queue_get_main(p->rk);
}

static void first_record(producer_t *p, size_t size) {
    char *payload = calloc(1, size);
    p->to_hear = 1;
    if (rd_kafka_produce(p->rkt, p->partition, MSG_COPY, payload, size, NULL, 0, NULL))
        die("not produced: %s", rd_kafka_err2str(rd_kafka_last_error()));
    while (p->to_hear) hear(p, 1000);
    free(payload);
}

/* Puts up to `count` records of the same payload into the producer's queue; how many found room. */
static long enqueue(producer_t *p, int32_t partition, void *payload, size_t size, long count) {
    rd_kafka_message_t messages[1024];
    if (count > 1024) count = 1024;
    memset(messages, 0, count * sizeof *messages);
    for (long i = 0; i < count; i++) {
        messages[i].payload = payload;
        messages[i].len = size;
    }
    long sent = rd_kafka_produce_batch(p->rkt, partition, 0, messages, count);
    for (long i = 0; i < count; i++)
        if (messages[i].err && messages[i].err != ERR_QUEUE_FULL)
            die("not produced: %s", rd_kafka_err2str(messages[i].err));
    p->to_send -= sent;
    return sent;
}

/* Not all zeros, so that nothing on the way finds it too easy. */
static char *make_payload(size_t size) {
    char *payload = malloc(size + 8);
    uint32_t x = 2463534242u;
    for (size_t i = 0; i < size; i++) {
        x ^= x << 13, x ^= x >> 17, x ^= x << 5;
        payload[i] = (char)x;
    }
    return payload;
}

/* ---- modes ---- */

static void run_batched(void) {
    long records = number("records", 1000000), partitions = number("partitions", 1), rate = number("rate", 0);
    size_t size = number("size", 100);
    char *payload = make_payload(size);
    producer_t p;
    rd_kafka_conf_t *conf = client_conf();
    set(conf, "linger.ms", "5");
    set(conf, "queue.buffering.max.messages", "200000");
    open_producer(&p, conf, 0);
    know_topic(p.rk, p.rkt);
    for (int32_t i = 0; i < partitions; i++) {
        p.partition = i;
        first_record(&p, size);
    }
    p.to_send = p.to_hear = records;
    start_clock();
    int64_t begin = now_ns();
    for (int32_t partition = 0; p.to_send; partition = (partition + 1) % partitions) {
        long chunk = p.to_send < 1000 ? p.to_send : 1000;
        int64_t due = rate ? begin + (records - p.to_send) * 1000000000LL / rate : 0;
        while (now_ns() < due) hear(&p, 1);
        while (chunk) {
            long sent = enqueue(&p, partition, payload, size, chunk);
            chunk -= sent;
            while (hear(&p, chunk ? 100 : 0) >= 0 && !chunk) continue;
        }
    }
    while (p.to_hear) hear(&p, 1000);
    report(records, (long long)records * size, NULL, 0);
}

typedef struct {
    producer_t *producers;
    long count;
    size_t size;
    char *payload;
} share_t;

/* Without idempotence: a deep queue for each connection, looked after by a few threads. */
static void *keep_queues_full(void *argument) {
    share_t *share = argument;
    long busy = share->count;
    while (busy) {
        busy = 0;
        for (long i = 0; i < share->count; i++) {
            producer_t *p = &share->producers[i];
            if (!p->to_hear) continue;
            busy++;
            while (p->to_hear && hear(p, 0) >= 0) continue;
            while (p->to_send && enqueue(p, p->partition, share->payload, share->size, p->to_send < 64 ? p->to_send : 64))
                continue;
        }
        /* The queues hold many milliseconds of work, so a nap starves no connection and leaves the cores to the rest. */
        if (busy) usleep(500);
    }
    return NULL;
}

/* With idempotence: no more than the five requests in flight that it allows. librdkafka spins on a record that waits for
 * its turn with linger.ms=0 (a queue of 1,000 cost the client more than a core), and that spin would be measured. */
static void *keep_window_full(void *argument) {
    share_t *share = argument;
    producer_t *p = share->producers;
    while (p->to_hear) {
        long room = IDEMPOTENT_WINDOW - (p->to_hear - p->to_send);
        if (room > p->to_send) room = p->to_send;
        if (room > 0) enqueue(p, p->partition, share->payload, share->size, room);
        if (hear(p, 1000) >= 0)
            while (p->to_hear && hear(p, 0) >= 0) continue;
    }
    return NULL;
}

static void run_single(void) {
    long records = number("records", 20000), partitions = number("partitions", 1);
    long connections = number("connections", 1), idempotent = number("idempotence", 0);
    long threads = idempotent || connections < 2 ? connections : 2, each = records / connections;
    size_t size = number("size", 100);
    char *payload = make_payload(size);
    producer_t *producers = calloc(connections, sizeof *producers);
    for (long i = 0; i < connections; i++) {
        rd_kafka_conf_t *conf = client_conf();
        set(conf, "linger.ms", "0");
        set(conf, "batch.num.messages", "1");
        set(conf, "queue.buffering.max.messages", "1000");
        if (!idempotent) set(conf, "max.in.flight.requests.per.connection", "1000000");
        open_producer(&producers[i], conf, i % partitions);
    }
    for (long i = 0; i < connections; i++) {
        know_topic(producers[i].rk, producers[i].rkt);
        first_record(&producers[i], size);
        producers[i].to_send = producers[i].to_hear = each;
    }
    pthread_t *ids = calloc(threads, sizeof *ids);
    share_t *shares = calloc(threads, sizeof *shares);
    start_clock();
    for (long t = 0, from = 0; t < threads; t++) {
        long to = connections * (t + 1) / threads;
        shares[t] = (share_t){producers + from, to - from, size, payload};
        pthread_create(&ids[t], NULL, idempotent ? keep_window_full : keep_queues_full, &shares[t]);
        from = to;
    }
    for (long t = 0; t < threads; t++) pthread_join(ids[t], NULL);
    report(each * connections, (long long)each * connections * size, NULL, 0);
}

static void run_sync(void) {
    long records = number("records", 10000);
    size_t size = number("size", 100);
    char *payload = make_payload(size);
    int64_t *latencies = calloc(records, sizeof *latencies);
    producer_t p;
    rd_kafka_conf_t *conf = client_conf();
    set(conf, "linger.ms", "0");
    set(conf, "batch.num.messages", "1");
    set(conf, "max.in.flight.requests.per.connection", "1");
    open_producer(&p, conf, 0);
    know_topic(p.rk, p.rkt);
    first_record(&p, size);
    p.to_send = p.to_hear = records;
    start_clock();
    for (long i = 0; i < records; i++) {
        int64_t sent_at = now_ns();
        long left = p.to_hear;
        if (enqueue(&p, 0, payload, size, 1) != 1) die("no room for one record");
        while (p.to_hear == left) hear(&p, 1000);
        latencies[i] = now_ns() - sent_at;
    }
    report(records, (long long)records * size, latencies, records);
}

typedef struct {
    rd_kafka_t *rk;
    rd_kafka_topic_t *rkt;
    rd_kafka_queue_t *queue;
} consumer_t;

static consumer_t open_consumer(void) {
    char error[256];
    consumer_t c;
    rd_kafka_conf_t *conf = client_conf();
    /* By default librdkafka pauses fetching for a second when its queue is full, which would measure that pause. */
    set(conf, "queued.min.messages", "1000000");
    set(conf, "queued.max.messages.kbytes", "262144");
    set(conf, "fetch.queue.backoff.ms", "5");
    c.rk = rd_kafka_new(CONSUMER, conf, error, sizeof error);
    if (!c.rk) die("no consumer: %s", error);
    c.rkt = rd_kafka_topic_new(c.rk, text("topic", NULL), NULL);
    c.queue = rd_kafka_queue_new(c.rk);
    know_topic(c.rk, c.rkt);
    return c;
}

static void start_reading(consumer_t *c, int32_t partition) {
    if (rd_kafka_consume_start_queue(c->rkt, partition, OFFSET_BEGINNING, c->queue))
        die("not assigned: %s", rd_kafka_err2str(rd_kafka_last_error()));
}

static void run_consume(void) {
    long records = number("records", 1000000), partitions = number("partitions", 1), seen = 0;
    long long bytes = 0;
    rd_kafka_message_t *messages[4096];
    consumer_t c = open_consumer();
    start_clock();
    for (int32_t i = 0; i < partitions; i++) start_reading(&c, i);
    while (seen < records) {
        long room = records - seen < 4096 ? records - seen : 4096;
        long got = rd_kafka_consume_batch_queue(c.queue, 1000, messages, room);
        if (got < 0) die("not consumed: %s", rd_kafka_err2str(rd_kafka_last_error()));
        for (long i = 0; i < got; i++) {
            if (messages[i]->err && messages[i]->err != ERR_PARTITION_EOF)
                die("not consumed: %s", rd_kafka_err2str(messages[i]->err));
            if (!messages[i]->err) seen++, bytes += messages[i]->len;
            rd_kafka_message_destroy(messages[i]);
        }
    }
    report(seen, bytes, NULL, 0);
}

typedef struct {
    producer_t *producer;
    long records, rate;
    size_t size;
} pace_t;

static void *produce_at_pace(void *argument) {
    pace_t *pace = argument;
    char *payload = make_payload(pace->size);
    int64_t begin = now_ns();
    for (long i = 0; i < pace->records; i++) {
        int64_t due = begin + i * 1000000000LL / pace->rate;
        sleep_until(due);
        int64_t stamp = now_ns();
        memcpy(payload, &stamp, sizeof stamp);
        if (rd_kafka_produce(pace->producer->rkt, 0, MSG_COPY, payload, pace->size, NULL, 0, NULL))
            die("not produced: %s", rd_kafka_err2str(rd_kafka_last_error()));
        while (hear(pace->producer, 0) >= 0) continue;
    }
    while (pace->producer->to_hear) hear(pace->producer, 1000);
    return NULL;
}

static void run_latency(void) {
    long rate = number("rate", 1000), lead = rate, records = rate * number("seconds", 10) + lead;
    size_t size = number("size", 100);
    int64_t *latencies = calloc(records, sizeof *latencies);
    producer_t p;
    rd_kafka_conf_t *conf = client_conf();
    set(conf, "linger.ms", "0");
    open_producer(&p, conf, 0);
    know_topic(p.rk, p.rkt);
    first_record(&p, size);
    p.to_hear = records;
    consumer_t c = open_consumer();
    start_reading(&c, 0);
    pace_t pace = {&p, records, rate, size};
    pthread_t thread;
    start_clock();
    pthread_create(&thread, NULL, produce_at_pace, &pace);
    for (long seen = -1; seen < records;) { /* the first one is the record of first_record */
        rd_kafka_message_t *message = rd_kafka_consume_queue(c.queue, 1000);
        int64_t at = now_ns(), stamp;
        if (!message) continue;
        if (message->err && message->err != ERR_PARTITION_EOF) die("not consumed: %s", rd_kafka_err2str(message->err));
        if (!message->err) {
            memcpy(&stamp, message->payload, sizeof stamp);
            if (seen >= 0) latencies[seen] = at - stamp;
            seen++;
        }
        rd_kafka_message_destroy(message);
    }
    pthread_join(thread, NULL);
    /* The first second, in which the consumer finds its place, is not counted. */
    report(records - lead, (long long)(records - lead) * size, latencies + lead, records - lead);
}

static void must(const char *what, rd_kafka_error_t *error) {
    if (error) die("%s: %s", what, rd_kafka_error_string(error));
}

static void open_transactional(producer_t *p, const char *linger_ms, long index) {
    char name[256];
    rd_kafka_conf_t *conf = client_conf();
    snprintf(name, sizeof name, "%s-%ld", text("topic", NULL), index);
    set(conf, "linger.ms", linger_ms);
    set(conf, "transactional.id", name);
    open_producer(p, conf, 0);
    know_topic(p->rk, p->rkt);
    must("not initialised", rd_kafka_init_transactions(p->rk, 60000));
}

typedef struct {
    producer_t producer;
    long transactions, records, partitions;
    int64_t first_due, every; /* in nanoseconds; 0: at once, one after the other */
    int64_t *took;
    pthread_barrier_t *start;
    char *payload;
    size_t size;
} committer_t;

static void transact(committer_t *c, int64_t *took) {
    producer_t *p = &c->producer;
    must("not begun", rd_kafka_begin_transaction(p->rk));
    p->to_hear = c->records;
    for (long i = 0; i < c->records; i++)
        if (rd_kafka_produce(p->rkt, i % c->partitions, MSG_COPY, c->payload, c->size, NULL, 0, NULL))
            die("not produced: %s", rd_kafka_err2str(rd_kafka_last_error()));
    while (p->to_hear) hear(p, 1000); /* what is measured is the commit alone */
    int64_t began = now_ns();
    must("not committed", rd_kafka_commit_transaction(p->rk, 60000));
    *took = now_ns() - began;
}

static void *commit_again_and_again(void *argument) {
    committer_t *c = argument;
    int64_t ignored;
    for (long i = 0; i < c->transactions / 5; i++) transact(c, &ignored);
    pthread_barrier_wait(c->start);
    pthread_barrier_wait(c->start); /* the clock is started in between */
    int64_t begin = now_ns() + c->first_due;
    for (long i = 0; i < c->transactions; i++) {
        if (c->every) sleep_until(begin + i * c->every);
        transact(c, &c->took[i]);
    }
    return NULL;
}

static void run_transactions(void) {
    long producers = number("producers", 1), transactions = number("transactions", 1000), rate = number("rate", 0);
    long records = number("records", 1), all = producers * transactions;
    size_t size = number("size", 100);
    int64_t *took = calloc(all, sizeof *took), every = rate ? producers * 1000000000LL / rate : 0;
    committer_t *committers = calloc(producers, sizeof *committers);
    pthread_t *threads = calloc(producers, sizeof *threads);
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, producers + 1);
    for (long i = 0; i < producers; i++) {
        committers[i] = (committer_t){.transactions = transactions, .records = records,
                                      .partitions = number("partitions", 1), .first_due = every * i / producers,
                                      .every = every, .took = took + i * transactions, .start = &start,
                                      .payload = make_payload(size), .size = size};
        open_transactional(&committers[i].producer, "0", i);
        pthread_create(&threads[i], NULL, commit_again_and_again, &committers[i]);
    }
    pthread_barrier_wait(&start);
    start_clock();
    pthread_barrier_wait(&start);
    for (long i = 0; i < producers; i++) pthread_join(threads[i], NULL);
    report(all, (long long)all * records * size, took, all);
}

static void run_steady(void) {
    long partitions = number("partitions", 1), seconds = number("seconds", 5), records = 0;
    int64_t commit_ns = number("commit_ms", 100) * 1000000LL;
    size_t size = number("size", 100);
    char *payload = make_payload(size);
    producer_t p;
    if (commit_ns) {
        open_transactional(&p, "5", 0);
        must("not begun", rd_kafka_begin_transaction(p.rk));
    } else {
        rd_kafka_conf_t *conf = client_conf();
        set(conf, "linger.ms", "5");
        open_producer(&p, conf, 0);
        first_record(&p, size);
    }
    start_clock();
    int64_t end = started_ns + seconds * 1000000000LL, due = started_ns + commit_ns, now = started_ns;
    for (long turn = 0; now < end; turn++) {
        long sent = enqueue(&p, turn % partitions, payload, size, 500);
        records += sent;
        p.to_hear += sent;
        while (hear(&p, sent < 500 ? 1 : 0) > 0) continue;
        now = now_ns();
        if (commit_ns && now >= due) {
            while (p.to_hear) hear(&p, 1000);
            must("not committed", rd_kafka_commit_transaction(p.rk, 60000));
            must("not begun", rd_kafka_begin_transaction(p.rk));
            now = now_ns();
            due = now + commit_ns;
        }
    }
    while (p.to_hear) hear(&p, 1000);
    if (commit_ns) must("not committed", rd_kafka_commit_transaction(p.rk, 60000));
    report(records, (long long)records * size, NULL, 0);
}

static void wait_for_port(const char *brokers) {
    const char *colon = strrchr(brokers, ':');
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(colon ? colon + 1 : "9092"))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (;;) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        int refused = connect(fd, (struct sockaddr *)&address, sizeof address);
        close(fd);
        if (!refused) return;
        usleep(1000);
    }
}

static void run_first_ack(void) {
    producer_t p;
    size_t size = number("size", 100);
    wait_for_port(text("brokers", NULL));
    double listening = now_ns() / 1e9;
    rd_kafka_conf_t *conf = client_conf();
    set(conf, "linger.ms", "0");
    set(conf, "topic.metadata.refresh.fast.interval.ms", "10");
    set(conf, "topic.metadata.propagation.max.ms", "120000");
    set(conf, "retry.backoff.ms", "5");
    set(conf, "retry.backoff.max.ms", "10");
    set(conf, "reconnect.backoff.ms", "5");
    set(conf, "reconnect.backoff.max.ms", "10");
    open_producer(&p, conf, 0);
    long long offsets = 0; /* shows whether all that was there before is there again */
    for (long partitions = number("partitions", 1); p.partition < partitions; p.partition++) {
        first_record(&p, size);
        offsets += p.last_offset;
    }
    printf("{\"listening_at\": %.6f, \"acknowledged_at\": %.6f, \"sum_of_offsets\": %lld}\n", listening,
           now_ns() / 1e9, offsets);
    fflush(stdout);
}

int main(int argc, char **argv) {
    arg_count = argc;
    arg_values = argv;
    if (argc < 2) die("which mode? see the top of load.c");
    alarm(number("deadline", 300));
    if (!strcmp(argv[1], "batched")) run_batched();
    else if (!strcmp(argv[1], "single")) run_single();
    else if (!strcmp(argv[1], "sync")) run_sync();
    else if (!strcmp(argv[1], "consume")) run_consume();
    else if (!strcmp(argv[1], "latency")) run_latency();
    else if (!strcmp(argv[1], "transactions")) run_transactions();
    else if (!strcmp(argv[1], "steady")) run_steady();
    else if (!strcmp(argv[1], "first-ack")) run_first_ack();
    else die("unknown mode %s", argv[1]);
    _exit(0); /* nothing of the clients is worth an orderly end: closing 64 of them takes longer than some loads */
}

/* Sends prepared requests over several connections again and again, and checks each answer against the expected one.
 *
 *   replay port=P file=F rounds=N [window=W] [deadline=S]
 *
 * The file, all numbers 32 bits, big-endian: connections; for each of them, exchanges; for each of these the request's
 * and the answer's frame, with their sizes in front as on the wire. Correlation ids are set and compared here. Each
 * connection goes through its requests N times, W of them under way (1 if not said). Prints one line of JSON.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CORRELATION_IN_REQUEST = 8, CORRELATION_IN_ANSWER = 4, RECEIVE = 1 << 16 };

struct frame { uint8_t *bytes; uint32_t size; };
struct exchange { struct frame request, answer; };
struct connection {
    int fd;
    struct exchange *exchanges;
    uint32_t count, sent, answered, left;
    uint8_t *received;
    uint32_t filled;
};

static void fail(const char *what) {
    fprintf(stderr, "replay: %s%s%s\n", what, errno ? ": " : "", errno ? strerror(errno) : "");
    exit(1);
}

static const char *argument(int argc, char **argv, const char *name, const char *fallback) {
    size_t length = strlen(name);
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], name, length) == 0 && argv[i][length] == '=') return argv[i] + length + 1;
    if (fallback == NULL) { fprintf(stderr, "replay: %s=... is missing\n", name); exit(2); }
    return fallback;
}

static uint32_t number_at(const uint8_t *at) {
    uint32_t raw;
    memcpy(&raw, at, 4);
    return ntohl(raw);
}

static uint32_t read_number(FILE *file) {
    uint8_t raw[4];
    if (fread(raw, 1, 4, file) != 4) fail("the file ends too soon");
    return number_at(raw);
}

static struct frame read_frame(FILE *file) {
    uint32_t size = read_number(file) + 4;
    struct frame frame = {malloc(size), size};
    uint32_t raw = htonl(size - 4);
    memcpy(frame.bytes, &raw, 4);
    if (fread(frame.bytes + 4, 1, size - 4, file) != size - 4) fail("the file ends too soon");
    return frame;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static int dial(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0) fail("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static void send_next(struct connection *c) {
    if (c->left == 0) return;
    c->left--;
    struct frame *request = &c->exchanges[c->sent % c->count].request;
    uint32_t raw = htonl(c->sent++ & 0x7FFFFFFF), done = 0;
    memcpy(request->bytes + CORRELATION_IN_REQUEST, &raw, 4);
    while (done < request->size) {
        ssize_t n = send(c->fd, request->bytes + done, request->size - done, 0);
        if (n < 0) fail("send");
        done += n;
    }
}

/* Checks the whole answers that are there; how many. */
static uint32_t take(struct connection *c) {
    uint32_t position = 0, taken = 0;
    while (c->filled - position >= 4) {
        uint32_t size = number_at(c->received + position) + 4;
        if (size > RECEIVE) { errno = 0; fail("an answer is too long"); }
        if (c->filled - position < size) break;
        struct frame *expected = &c->exchanges[c->answered % c->count].answer;
        uint8_t *got = c->received + position;
        int same = size == expected->size && number_at(got + CORRELATION_IN_ANSWER) == (c->answered & 0x7FFFFFFF) &&
                   memcmp(got + 8, expected->bytes + 8, size - 8) == 0;
        if (!same) { errno = 0; fail("an answer is not the expected one"); }
        c->answered++;
        taken++;
        position += size;
    }
    memmove(c->received, c->received + position, c->filled - position);
    c->filled -= position;
    return taken;
}

int main(int argc, char **argv) {
    int port = atoi(argument(argc, argv, "port", NULL));
    uint32_t rounds = strtoul(argument(argc, argv, "rounds", NULL), NULL, 10);
    uint32_t window = strtoul(argument(argc, argv, "window", "1"), NULL, 10);
    alarm(atoi(argument(argc, argv, "deadline", "240")));
    FILE *file = fopen(argument(argc, argv, "file", NULL), "rb");
    if (file == NULL) fail("the file");
    uint32_t count = read_number(file), requests = 0, answered = 0;
    struct connection *connections = calloc(count, sizeof *connections);
    int epoll = epoll_create1(0);
    for (uint32_t i = 0; i < count; i++) {
        struct connection *c = &connections[i];
        c->count = read_number(file);
        c->exchanges = calloc(c->count, sizeof *c->exchanges);
        for (uint32_t e = 0; e < c->count; e++) {
            c->exchanges[e].request = read_frame(file);
            c->exchanges[e].answer = read_frame(file);
        }
        c->left = c->count * rounds;
        requests += c->left;
        c->received = malloc(RECEIVE);
        c->fd = dial(port);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
        epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event);
    }
    fclose(file);
    double began = now();
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t w = 0; w < window; w++) send_next(&connections[i]);
    while (answered < requests) {
        struct epoll_event events[64];
        int ready = epoll_wait(epoll, events, 64, -1);
        for (int i = 0; i < ready; i++) {
            struct connection *c = events[i].data.ptr;
            ssize_t n = recv(c->fd, c->received + c->filled, RECEIVE - c->filled, 0);
            if (n <= 0) fail("the connection was closed");
            c->filled += n;
            uint32_t taken = take(c);
            answered += taken;
            for (; taken > 0; taken--) send_next(c);
        }
    }
    double seconds = now() - began;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double cpu = usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    printf("{\"seconds\": %.6f, \"requests\": %u, \"rate\": %.1f, \"client_cpu_seconds\": %.4f}\n", seconds, requests,
           requests / seconds, cpu);
    return 0;
}

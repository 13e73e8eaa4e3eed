/*
 * Asks a DNS server over UDP at a steady rate, however fast it answers, and prints one JSON object.
 *
 *   asker PORT RATE SECONDS TIMEOUT_MS EDNS FILE [REFERENCE_PORT]
 *
 * FILE has one `NAME TYPE` a line, asked in turn; SECONDS 0 asks each once. RATE is queries a second. A latency is the
 * time from the send to the kernel's own receive stamp, so that this program's delays are no part of it. What listens
 * at REFERENCE_PORT is asked the same, each time half a gap later: what it takes for longest is the machine's doing.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { SOCKETS = 4, TARGETS = 2, IDS = 65536, REPLY_BYTES = 65536, BUCKETS = 8192, BUFFER = 8 << 20, LEISURE_NS = 200000 };

typedef struct {
  unsigned char *bytes;
  int length;
} query;

static query *queries;
static size_t count;
typedef struct {
  int fds[SOCKETS];
  /* 0: not waited for. */
  int64_t sent_at[SOCKETS][IDS];
  long histogram[BUCKETS];
  long sent, received, unsent, rcodes[16], stray;
  double sum_us, max_us;
} target;

static target targets[TARGETS];
static int64_t timeout_ns;

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return t.tv_sec * 1000000000ll + t.tv_nsec;
}

/* 32 steps to each doubling. */
static int bucket(double us) {
  if (us < 1) us = 1;
  int exponent = 0;
  while (us >= 2) us /= 2, exponent++;
  return exponent * 32 + (int)((us - 1) * 32);
}

static double bucket_top(int b) { return (double)(1ull << (b / 32)) * (1 + (b % 32 + 1) / 32.0); }

static int type_number(const char *text) {
  if (strcmp(text, "A") == 0) return 1;
  if (strcmp(text, "AAAA") == 0) return 28;
  if (strcmp(text, "SRV") == 0) return 33;
  fprintf(stderr, "unknown type %s\n", text);
  exit(2);
}

static query encode(const char *name, int type, int edns) {
  unsigned char b[320] = {0};
  int n = 12;
  b[2] = 1; /* RD: caches want it */
  b[5] = 1;
  for (const char *p = name; *p != 0 && *p != '\n';) {
    const char *dot = strchrnul(p, '.');
    int length = (int)(dot - p);
    if (length == 0) break;
    if (length > 63 || n + length > 250) fprintf(stderr, "bad name %s\n", name), exit(2);
    b[n++] = length;
    memcpy(b + n, p, length);
    n += length;
    p = *dot ? dot + 1 : dot;
  }
  b[n++] = 0;
  b[n++] = 0, b[n++] = type, b[n++] = 0, b[n++] = 1;
  if (edns) {
    static const unsigned char opt[11] = {0, 0, 41, 0x10, 0, 0, 0, 0, 0, 0, 0};
    memcpy(b + n, opt, sizeof opt);
    n += sizeof opt;
    b[11] = 1;
  }
  query q = {malloc(n), n};
  memcpy(q.bytes, b, n);
  return q;
}

static void load(const char *path, int edns) {
  FILE *file = fopen(path, "r");
  if (file == NULL) perror(path), exit(1);
  char name[300], type[16];
  size_t room = 0;
  while (fscanf(file, "%299s %15s", name, type) == 2) {
    if (count == room) queries = realloc(queries, (room = room ? room * 2 : 1024) * sizeof *queries);
    queries[count++] = encode(name, type_number(type), edns);
  }
  fclose(file);
  if (count == 0) fprintf(stderr, "%s: no queries\n", path), exit(2);
}

static void receive(target *t, int s) {
  static unsigned char reply[REPLY_BYTES];
  for (;;) {
    char control[128];
    struct iovec piece = {reply, sizeof reply};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t length = recvmsg(t->fds[s], &message, MSG_DONTWAIT);
    if (length < 0) {
      /* A refused port shows here; the query is lost and counted as such. */
      if (errno == ECONNREFUSED || errno == EINTR) continue;
      return;
    }
    if (length < 12) continue;
    int64_t at = now();
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c != NULL; c = CMSG_NXTHDR(&message, c)) {
      if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SO_TIMESTAMPNS) continue;
      struct timespec stamp;
      memcpy(&stamp, CMSG_DATA(c), sizeof stamp);
      at = stamp.tv_sec * 1000000000ll + stamp.tv_nsec;
    }
    int id = reply[0] << 8 | reply[1];
    int64_t began = t->sent_at[s][id];
    if (began == 0 || at - began > timeout_ns) {
      t->stray++;
      continue;
    }
    t->sent_at[s][id] = 0;
    double us = (at - began) / 1e3;
    t->received++;
    t->rcodes[reply[3] & 15]++;
    t->sum_us += us;
    if (us > t->max_us) t->max_us = us;
    int b = bucket(us);
    t->histogram[b < BUCKETS ? b : BUCKETS - 1]++;
  }
}

static double percentile(const target *t, double share) {
  long rank = (long)(t->received * share), seen = 0;
  for (int b = 0; b < BUCKETS; b++) {
    seen += t->histogram[b];
    if (seen > rank) return bucket_top(b) < t->max_us ? bucket_top(b) : t->max_us;
  }
  return t->max_us;
}

static void open_sockets(target *t, int port) {
  struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons(port)};
  server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  for (int s = 0; s < SOCKETS; s++) {
    int size = BUFFER, on = 1;
    t->fds[s] = socket(AF_INET, SOCK_DGRAM, 0);
    setsockopt(t->fds[s], SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
    setsockopt(t->fds[s], SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
    if (connect(t->fds[s], (struct sockaddr *)&server, sizeof server) != 0) perror("connect"), exit(1);
  }
}

static void ask(target *t, long n) {
  int s = n % SOCKETS, id = (n / SOCKETS) % IDS;
  query q = queries[n % count];
  q.bytes[0] = id >> 8, q.bytes[1] = id & 255;
  t->sent_at[s][id] = now();
  if (send(t->fds[s], q.bytes, q.length, MSG_DONTWAIT) == q.length) t->sent++;
  else if (errno == ECONNREFUSED && send(t->fds[s], q.bytes, q.length, MSG_DONTWAIT) == q.length) t->sent++;
  else t->sent_at[s][id] = 0, t->unsent++;
}

static void print(const target *t) {
  printf("\"sent\":%ld,\"received\":%ld,\"unsent\":%ld,\"stray\":%ld,\"meanUs\":%.1f,\"p50Us\":%.1f,\"p99Us\":%.1f,"
         "\"p999Us\":%.1f,\"maxUs\":%.1f,\"rcodes\":{",
         t->sent, t->received, t->unsent, t->stray, t->received ? t->sum_us / t->received : 0, percentile(t, 0.5),
         percentile(t, 0.99), percentile(t, 0.999), t->max_us);
  for (int i = 0, any = 0; i < 16; i++)
    if (t->rcodes[i]) printf("%s\"%d\":%ld", any++ ? "," : "", i, t->rcodes[i]);
  printf("}");
}

int main(int argc, char **argv) {
  if (argc != 7 && argc != 8)
    return fprintf(stderr, "usage: asker PORT RATE SECONDS TIMEOUT_MS EDNS FILE [REFERENCE_PORT]\n"), 2;
  double rate = atof(argv[2]), seconds = atof(argv[3]);
  timeout_ns = atol(argv[4]) * 1000000ll;
  load(argv[6], atoi(argv[5]));
  int used = argc - 6;
  open_sockets(&targets[0], atoi(argv[1]));
  if (used > 1) open_sockets(&targets[1], atoi(argv[7]));
  long total = used * (seconds > 0 ? (long)(rate * seconds) : (long)count);
  int64_t start = now();
  double gap = 1e9 / rate / used;
  for (long next = 0; next < total;) {
    long due = (long)((now() - start) / gap) + 1;
    /* After a pause of this program it does not catch up in one burst. */
    if (due - next > 64) start += (int64_t)((due - next - 1) * gap), due = next + 1;
    for (; next < due && next < total; next++) ask(&targets[next % used], next / used);
    for (int t = 0; t < used; t++)
      for (int s = 0; s < SOCKETS; s++) receive(&targets[t], s);
    /* At a leisurely rate the core is left to others: the kernel's stamps do not need this program awake. */
    if (gap > LEISURE_NS) {
      int64_t rest = start + (int64_t)(next * gap) - now();
      if (rest > 0) nanosleep(&(struct timespec){0, rest % 1000000000}, NULL);
    }
  }
  int64_t until = now() + timeout_ns;
  for (int t = 0; t < used; t++)
    while (targets[t].received < targets[t].sent && now() < until) {
      struct pollfd waits[SOCKETS];
      for (int s = 0; s < SOCKETS; s++) waits[s] = (struct pollfd){targets[t].fds[s], POLLIN, 0};
      poll(waits, SOCKETS, 10);
      for (int s = 0; s < SOCKETS; s++) receive(&targets[t], s);
    }
  printf("{");
  print(&targets[0]);
  if (used > 1) printf(",\"reference\":{"), print(&targets[1]), printf("}");
  printf("}\n");
  return 0;
}

/*
 * Accepts connections at one port of very many loopback addresses, and tells how regularly each of them is probed.
 *
 * usage: acceptor PORT ADDRESSES INTERVAL_MS RETRY_MS LAST_RETRY_MS
 * Addresses are 127.1.0.0 + n. On SIGUSR1 it counts from nothing, on SIGUSR2 it prints a line of JSON: probes, addresses
 * that were ever probed, and of the intervals between two probes of one address the number, mean, 0.1 %, 99.9 %, least
 * and most, in milliseconds, and how many were outside 80 to 120 % of INTERVAL_MS.
 *
 * Where it may, it sees the SYN packets as they come in, before any is lost on purpose: `"seen":"sent"`. One that was sent
 * again by the kernel, or by the probe RETRY_MS to LAST_RETRY_MS after the first, is the same probe. Otherwise it goes by
 * what it accepts.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define FIRST 0x7f010000u
/* An accepted connection is closed so much later: the other side has long reset it. */
#define KEEP_NS 50000000ull
#define RING 65536
#define LOOK_US 2000
/* Intervals are counted in steps of 10 ms up to 10 minutes. */
#define STEP_NS 10000000ull
#define STEPS 60000
#define BUFFER (32 << 20)
#define LOW 0.8
#define HIGH 1.2
/* Another try of a probe comes so much sooner or later than it is meant to. */
#define RETRY_PLAY_NS 100000000ull
/* The kernel sends a SYN again after a second. */
#define AGAIN_NS 1500000000ull

typedef unsigned long long ns;

static volatile sig_atomic_t forget, tell;
static unsigned gaps[STEPS];
static ns interval, retry, last_retry, visits, known, number, sum, least = ~0ull, most, outside, last_of_all;
/* By address: when it was probed last, and from which port. */
static unsigned count;
static ns *last;
static unsigned short *from;

static void on_signal(int signal_number) {
  if (signal_number == SIGUSR1) forget = 1;
  else tell = 1;
}

static ns now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (ns)t.tv_sec * 1000000000ull + (ns)t.tv_nsec;
}

static double share(ns all, double part) {
  ns seen = 0, wanted = (ns)((double)all * part);
  for (unsigned i = 0; i < STEPS; i++) {
    seen += gaps[i];
    if (seen > wanted) return (double)i * (double)STEP_NS / 1e6;
  }
  return (double)STEPS * (double)STEP_NS / 1e6;
}

static void visit(unsigned address, unsigned short port, ns at) {
  unsigned n = address - FIRST;
  if (n >= count) return;
  if (last[n] != 0) {
    ns gap = at - last[n];
    if (port != 0 && port == from[n] && gap < AGAIN_NS) return;
    if (port != 0 && gap > retry - RETRY_PLAY_NS && gap < last_retry + RETRY_PLAY_NS) return;
    ns step = gap / STEP_NS;
    gaps[step < STEPS ? step : STEPS - 1]++;
    number++;
    sum += gap;
    if (gap < least) least = gap;
    if (gap > most) most = gap;
    if ((double)gap < LOW * (double)interval || (double)gap > HIGH * (double)interval) outside++;
  } else known++;
  visits++;
  last[n] = at;
  last_of_all = at;
  from[n] = port;
}

/* A socket that gets each SYN to the port as it comes in at loopback; -1 where that is not permitted. */
static int watch(unsigned short port) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 9),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_TCP, 0, 7),
      BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 0),
      BPF_STMT(BPF_LD | BPF_H | BPF_IND, 2),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, port, 0, 4),
      BPF_STMT(BPF_LD | BPF_B | BPF_IND, 13),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0x12),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x02, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, 64),
      BPF_STMT(BPF_RET | BPF_K, 0),
  };
  struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
  int size = BUFFER, on = 1;
  /* Of one protocol, so that it sees what comes in and not what goes out, which is the same here. */
  int fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  struct sockaddr_ll at = {
      .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP), .sll_ifindex = (int)if_nametoindex("lo")};
  setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
  if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) != 0 ||
      setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on) != 0 || bind(fd, (struct sockaddr *)&at, sizeof at) != 0) {
    close(fd);
    return -1;
  }
  return fd;
}

static void look(int packets) {
  for (;;) {
    unsigned char packet[64];
    char control[128];
    struct iovec piece = {packet, sizeof packet};
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t length = recvmsg(packets, &message, 0);
    if (length < 0) return;
    int head = (packet[0] & 15) * 4;
    if (length < head + 4) continue;
    ns at = now_ns();
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c != NULL; c = CMSG_NXTHDR(&message, c)) {
      if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SO_TIMESTAMPNS) continue;
      struct timespec t;
      memcpy(&t, CMSG_DATA(c), sizeof t);
      at = (ns)t.tv_sec * 1000000000ull + (ns)t.tv_nsec;
    }
    unsigned address;
    memcpy(&address, packet + 16, sizeof address);
    visit(ntohl(address), (unsigned short)(packet[head] << 8 | packet[head + 1]), at);
  }
}

/* Those that were not probed any more: what has gone by since is more than their interval was. */
static ns longest_silence(void) {
  ns longest = 0;
  for (unsigned n = 0; n < count; n++)
    if (last[n] != 0 && last_of_all - last[n] > longest) longest = last_of_all - last[n];
  return longest;
}

int main(int argc, char **argv) {
  if (argc != 6) {
    fprintf(stderr, "usage: acceptor PORT ADDRESSES INTERVAL_MS RETRY_MS LAST_RETRY_MS\n");
    return 2;
  }
  unsigned short port = (unsigned short)atoi(argv[1]);
  count = (unsigned)atoi(argv[2]);
  interval = (ns)atoi(argv[3]) * 1000000ull;
  retry = (ns)atoi(argv[4]) * 1000000ull;
  last_retry = (ns)atoi(argv[5]) * 1000000ull;
  last = calloc(count, sizeof *last);
  from = calloc(count, sizeof *from);
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  int on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
  at.sin_addr.s_addr = htonl(INADDR_ANY);
  if (!last || !from || bind(listener, (struct sockaddr *)&at, sizeof at) != 0 || listen(listener, 65535) != 0) {
    perror("acceptor");
    return 1;
  }
  int packets = watch(port);
  struct sigaction action = {.sa_handler = on_signal};
  sigaction(SIGUSR1, &action, NULL);
  sigaction(SIGUSR2, &action, NULL);
  signal(SIGPIPE, SIG_IGN);
  static struct { int fd; ns until; } ring[RING];
  unsigned head = 0, tail = 0;
  printf("ready\n");
  fflush(stdout);
  for (;;) {
    /* Nobody is woken for a connection: to wake a process of this host would be a cost of the one that connects. */
    usleep(LOOK_US);
    ns now = now_ns();
    if (packets >= 0) look(packets);
    if (forget) {
      forget = 0;
      /* When each was probed last is kept: what comes next may be another try of a probe before. */
      memset(gaps, 0, sizeof gaps);
      visits = number = sum = most = outside = 0;
      least = ~0ull;
    }
    for (int i = 0; i < 1000; i++) {
      int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
      if (fd < 0) break;
      if (packets < 0) {
        struct sockaddr_in local;
        socklen_t size = sizeof local;
        getsockname(fd, (struct sockaddr *)&local, &size);
        visit(ntohl(local.sin_addr.s_addr), 0, now_ns());
      }
      if (head - tail == RING) close(ring[tail++ % RING].fd);
      ring[head % RING].fd = fd;
      ring[head++ % RING].until = now + KEEP_NS;
    }
    while (tail != head && ring[tail % RING].until <= now) close(ring[tail++ % RING].fd);
    if (tell) {
      tell = 0;
      ns silence = longest_silence();
      printf("{\"seen\":\"%s\",\"visits\":%llu,\"addresses\":%llu,\"gaps\":%llu,\"meanMs\":%.1f,\"p001Ms\":%.0f,"
             "\"p999Ms\":%.0f,\"leastMs\":%.1f,\"mostMs\":%.1f,\"outside\":%llu}\n",
             packets < 0 ? "accepted" : "sent", visits, known, number, number ? (double)sum / (double)number / 1e6 : 0,
             share(number, 0.001), share(number, 0.999), number ? (double)least / 1e6 : 0,
             (double)(most > silence ? most : silence) / 1e6, outside);
      fflush(stdout);
    }
  }
}

/*
 * Accepts connections at one port of very many loopback addresses, and tells how regularly each of them is visited.
 *
 * usage: acceptor PORT ADDRESSES
 * Addresses are 127.1.0.0 + n. On SIGUSR1 it forgets what it has seen, on SIGUSR2 it prints a line of JSON: visits,
 * addresses that were visited, and of the gaps between two visits of one address the number, mean, 0.1 %, 99.9 %, least
 * and most, in milliseconds.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
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
/* Gaps are counted in steps of 10 ms up to 10 minutes. */
#define STEP_NS 10000000ull
#define STEPS 60000

static volatile sig_atomic_t forget, tell;

static void on_signal(int number) {
  if (number == SIGUSR1) forget = 1;
  else tell = 1;
}

static unsigned long long now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (unsigned long long)t.tv_sec * 1000000000ull + (unsigned long long)t.tv_nsec;
}

static unsigned gaps[STEPS];

static double share(unsigned long long all, double part) {
  unsigned long long seen = 0, wanted = (unsigned long long)((double)all * part);
  for (unsigned i = 0; i < STEPS; i++) {
    seen += gaps[i];
    if (seen > wanted) return (double)i * (double)STEP_NS / 1e6;
  }
  return (double)STEPS * (double)STEP_NS / 1e6;
}

int main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: acceptor PORT ADDRESSES\n");
    return 2;
  }
  unsigned count = (unsigned)atoi(argv[2]);
  unsigned long long *last = calloc(count, sizeof *last);
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  int on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(argv[1]))};
  at.sin_addr.s_addr = htonl(INADDR_ANY);
  if (!last || bind(listener, (struct sockaddr *)&at, sizeof at) != 0 || listen(listener, 65535) != 0) {
    perror("acceptor");
    return 1;
  }
  struct sigaction action = {.sa_handler = on_signal};
  sigaction(SIGUSR1, &action, NULL);
  sigaction(SIGUSR2, &action, NULL);
  signal(SIGPIPE, SIG_IGN);
  static struct { int fd; unsigned long long until; } ring[RING];
  unsigned head = 0, tail = 0;
  unsigned long long visits = 0, known = 0, number = 0, sum = 0, least = ~0ull, most = 0;
  printf("ready\n");
  fflush(stdout);
  for (;;) {
    struct pollfd ready = {.fd = listener, .events = POLLIN};
    poll(&ready, 1, head == tail ? 1000 : 10);
    unsigned long long now = now_ns();
    if (forget) {
      forget = 0;
      memset(last, 0, count * sizeof *last);
      memset(gaps, 0, sizeof gaps);
      visits = known = number = sum = most = 0;
      least = ~0ull;
    }
    for (int i = 0; i < 1000; i++) {
      struct sockaddr_in local;
      socklen_t size = sizeof local;
      int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
      if (fd < 0) break;
      now = now_ns();
      getsockname(fd, (struct sockaddr *)&local, &size);
      unsigned n = ntohl(local.sin_addr.s_addr) - FIRST;
      if (n < count) {
        visits++;
        if (last[n] == 0) known++;
        else {
          unsigned long long gap = now - last[n];
          unsigned step = (unsigned)(gap / STEP_NS);
          gaps[step < STEPS ? step : STEPS - 1]++;
          number++;
          sum += gap;
          if (gap < least) least = gap;
          if (gap > most) most = gap;
        }
        last[n] = now;
      }
      if (head - tail == RING) close(ring[tail++ % RING].fd);
      ring[head % RING].fd = fd;
      ring[head++ % RING].until = now + KEEP_NS;
    }
    while (tail != head && ring[tail % RING].until <= now) close(ring[tail++ % RING].fd);
    if (tell) {
      tell = 0;
      printf("{\"visits\":%llu,\"addresses\":%llu,\"gaps\":%llu,\"meanMs\":%.1f,\"p001Ms\":%.0f,\"p999Ms\":%.0f,"
             "\"leastMs\":%.1f,\"mostMs\":%.1f}\n",
             visits, known, number, number ? (double)sum / (double)number / 1e6 : 0, share(number, 0.001),
             share(number, 0.999), number ? (double)least / 1e6 : 0, (double)most / 1e6);
      fflush(stdout);
    }
  }
}

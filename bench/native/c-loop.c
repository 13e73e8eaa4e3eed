/*
 * The limit: receives datagrams in batches and sends each back with the response bit set. No DNS at all.
 *
 *   c-loop PORT [NICE] [BURNERS] [BURN_MS] [REST_MS]
 *
 * NICE is the priority of the loop's thread. BURNERS threads at priority 0 are busy for BURN_MS, then rest for REST_MS,
 * over and over: what a control thread at work does to the core.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 64, QUERY_BYTES = 2048, SOCKET_BUFFER = 4 << 20 };

static long burn_ms, rest_ms;

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static void *burn(void *unused) {
  volatile unsigned sink = 0;
  for (;;) {
    double until = now_ms() + burn_ms;
    while (now_ms() < until)
      for (int i = 0; i < 10000; i++) sink += i;
    if (rest_ms > 0) usleep(rest_ms * 1000);
  }
  return unused;
}

int main(int argc, char **argv) {
  if (argc < 2) return fprintf(stderr, "usage: c-loop PORT [NICE] [BURNERS] [BURN_MS] [REST_MS]\n"), 2;
  int nice_by = argc > 2 ? atoi(argv[2]) : 0;
  int burners = argc > 3 ? atoi(argv[3]) : 0;
  burn_ms = argc > 4 ? atol(argv[4]) : 1000;
  rest_ms = argc > 5 ? atol(argv[5]) : 0;

  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1]))};
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(fd, (struct sockaddr *)&here, sizeof here) != 0) return perror("bind"), 1;
  int size = SOCKET_BUFFER;
  if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size) != 0)
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
  if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size) != 0)
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);

  for (int i = 0; i < burners; i++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, burn, NULL) != 0) return perror("pthread_create"), 1;
  }
  /* On Linux this is the calling thread's own. */
  if (nice_by != 0 && setpriority(PRIO_PROCESS, 0, nice_by) != 0) perror("setpriority");

  static unsigned char queries[BATCH][QUERY_BYTES];
  static struct sockaddr_in peers[BATCH];
  static struct iovec pieces[BATCH];
  static struct mmsghdr messages[BATCH];
  for (int i = 0; i < BATCH; i++) {
    pieces[i].iov_base = queries[i];
    messages[i].msg_hdr = (struct msghdr){.msg_name = &peers[i], .msg_iov = &pieces[i], .msg_iovlen = 1};
  }
  for (;;) {
    for (int i = 0; i < BATCH; i++) {
      pieces[i].iov_len = QUERY_BYTES;
      messages[i].msg_hdr.msg_namelen = sizeof peers[i];
    }
    int got = recvmmsg(fd, messages, BATCH, MSG_WAITFORONE, NULL);
    if (got < 0) {
      if (errno == EINTR) continue;
      return perror("recvmmsg"), 1;
    }
    for (int i = 0; i < got; i++) {
      pieces[i].iov_len = messages[i].msg_len;
      queries[i][2] |= 0x80;
    }
    for (int done = 0; done < got;) {
      int sent = sendmmsg(fd, messages + done, got - done, 0);
      if (sent > 0) done += sent;
      else if (errno != EINTR) done++;
    }
  }
}

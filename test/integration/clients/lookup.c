/* What the C library it was built with makes of a name: `lookup a NAME` by getaddrinfo, `lookup srv NAME` by res_search. */
#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <netdb.h>
#include <netinet/in.h>
#include <resolv.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static int addresses(const char *name) {
  struct addrinfo hints, *list, *one;
  memset(&hints, 0, sizeof hints);
  hints.ai_socktype = SOCK_STREAM;
  int failed = getaddrinfo(name, NULL, &hints, &list);
  if (failed) {
    printf("! %s\n", gai_strerror(failed));
    return 1;
  }
  for (one = list; one; one = one->ai_next) {
    char text[INET6_ADDRSTRLEN];
    const void *bytes = one->ai_family == AF_INET ? (const void *)&((struct sockaddr_in *)one->ai_addr)->sin_addr
                                                  : (const void *)&((struct sockaddr_in6 *)one->ai_addr)->sin6_addr;
    printf("%s\n", inet_ntop(one->ai_family, bytes, text, sizeof text));
  }
  return 0;
}

static int services(const char *name) {
  static unsigned char answer[65536];
  int length = res_search(name, ns_c_in, ns_t_srv, answer, sizeof answer);
  ns_msg message;
  if (length < 0 || ns_initparse(answer, length, &message) < 0) {
    printf("! no answer\n");
    return 1;
  }
  for (int i = 0; i < ns_msg_count(message, ns_s_an); i++) {
    ns_rr record;
    char target[NS_MAXDNAME];
    if (ns_parserr(&message, ns_s_an, i, &record) < 0) return 1;
    const unsigned char *data = ns_rr_rdata(record);
    if (dn_expand(ns_msg_base(message), ns_msg_end(message), data + 6, target, sizeof target) < 0) return 1;
    printf("%u %s\n", data[4] << 8 | data[5], target);
  }
  return 0;
}

int main(int count, char **words) {
  if (count != 3) return 2;
  return strcmp(words[1], "srv") ? addresses(words[2]) : services(words[2]);
}

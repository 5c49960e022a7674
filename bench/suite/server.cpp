// SPDX-License-Identifier: MIT
// A server with many connections: worker threads wait for requests on sockets, parse them, keep what clients store, and
// answer; whichever worker is free takes the next request, so that blocks are freed by threads that did not allocate
// them. A client process without an allocator sends the requests, one at a time on each connection, and takes the time
// from sending to the answer's end: the latencies of this program (kind request). It is no experiment of a paper.
//
// Requests are lines: S key size (store), G key (get), D key (delete), L from count (list keys and sizes). Sizes are
// mixed as servers have them: mostly small, some of a few KB, few of up to 64 KB. Each connection has its own keys and
// its own table, so that its answers depend on its own requests only. An operation is a request.
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "suite.hpp"

namespace {

constexpr size_t kBuckets = 256, kMostAnswer = 1 << 17, kMostRequest = 128;

// ---- The server.

struct Entry {
  Entry* next;
  size_t key, size;
  char* value;
};

struct Connection {
  int socket;
  Entry** buckets;
};

struct Answer {
  char* bytes;
  size_t length, capacity;

  void add(const char* from, size_t size) {
    if (length + size > capacity) {
      while (length + size > capacity) capacity *= 2;
      bytes = static_cast<char*>(suite::reallocate(bytes, capacity));
    }
    memcpy(bytes + length, from, size);
    length += size;
  }
};

Entry** find(Connection& connection, size_t key) {
  Entry** place = &connection.buckets[key % kBuckets];
  while (*place != nullptr && (*place)->key != key) place = &(*place)->next;
  return place;
}

void drop(Entry** place) {
  Entry* entry = *place;
  *place = entry->next;
  suite::release(entry->value);
  suite::release(entry);
}

void store(Connection& connection, size_t key, size_t size) {
  Entry** place = find(connection, key);
  if (*place != nullptr) drop(place);
  place = find(connection, key);
  Entry* entry = suite::make<Entry>();
  *entry = {nullptr, key, size, static_cast<char*>(suite::allocate(size))};
  memset(entry->value, static_cast<int>('a' + key % 26), size);
  *place = entry;
}

// Parses the request into words, each a block of its own, as servers do that keep them.
size_t parse(const char* line, char** words, size_t most) {
  size_t count = 0;
  while (*line != 0 && count < most) {
    size_t length = strcspn(line, " \n");
    words[count] = static_cast<char*>(suite::allocate(length + 1));
    memcpy(words[count], line, length);
    words[count++][length] = 0;
    line += length;
    line += *line != 0;
  }
  return count;
}

void answer(Connection& connection, const char* line, Answer& out) {
  char* words[3] = {};
  size_t count = parse(line, words, 3);
  suite::require(count >= 2, "a request was damaged");
  size_t key = strtoull(words[1], nullptr, 10), other = count > 2 ? strtoull(words[2], nullptr, 10) : 0;
  char text[64];
  Entry** place = find(connection, key);
  switch (words[0][0]) {
    case 'S':
      store(connection, key, other);
      break;
    case 'D':
      if (*place != nullptr) drop(place);
      break;
    case 'G':
      if (*place != nullptr) out.add((*place)->value, (*place)->size);
      break;
    default:
      for (size_t i = key; i < key + other; ++i) {
        Entry* entry = *find(connection, i);
        if (entry == nullptr) continue;
        out.add(text, static_cast<size_t>(snprintf(text, sizeof text, "%zu:%zu;", i, entry->size)));
      }
  }
  for (size_t i = 0; i < count; ++i) suite::release(words[i]);
}

// Answers begin with their length, so that the client knows where they end.
void send_all(int socket, const char* bytes, size_t length) {
  for (size_t done = 0; done < length;) {
    ssize_t sent = send(socket, bytes + done, length - done, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    suite::require(sent > 0, "cannot send");
    done += static_cast<size_t>(sent);
  }
}

// Returns false when the client has closed the connection.
// A request is sent with one call and there is one at a time, so that a socket of this machine hands it over whole.
bool serve_one(Connection& connection) {
  char* line = static_cast<char*>(suite::allocate(kMostRequest));
  ssize_t length = recv(connection.socket, line, kMostRequest - 1, 0);
  if (length <= 0) {
    suite::release(line);
    return false;
  }
  line[length] = 0;
  Answer out{static_cast<char*>(suite::allocate(64)), sizeof(uint64_t), 64};
  answer(connection, line, out);
  uint64_t size = out.length - sizeof size;
  memcpy(out.bytes, &size, sizeof size);
  send_all(connection.socket, out.bytes, out.length);
  suite::release(out.bytes);
  suite::release(line);
  return true;
}

void close_connection(Connection& connection) {
  for (size_t i = 0; i < kBuckets; ++i) {
    while (connection.buckets[i] != nullptr) drop(&connection.buckets[i]);
  }
  suite::release(connection.buckets);
  close(connection.socket);
}

// One-shot events: a connection is served by one worker at a time.
void serve(int events, std::atomic<size_t>& open, int wake) {
  epoll_event event;
  while (true) {
    int ready = epoll_wait(events, &event, 1, -1);
    if (ready <= 0) continue;
    Connection* connection = static_cast<Connection*>(event.data.ptr);
    if (connection == nullptr) return;  // all are closed: the pipe stays readable for the other workers
    if (serve_one(*connection)) {
      epoll_event again{};
      again.events = EPOLLIN | EPOLLONESHOT;
      again.data.ptr = connection;
      epoll_ctl(events, EPOLL_CTL_MOD, connection->socket, &again);
    } else {
      close_connection(*connection);
      if (open.fetch_sub(1, std::memory_order_acq_rel) == 1) suite::require(write(wake, "x", 1) == 1, "cannot wake");
    }
  }
}

// ---- The client: a process of its own, whose results are in memory that both share.

struct Results {
  uint64_t checksum;
  suite::Histogram latencies;
};

struct Client {
  int socket;
  suite::Random random;
  size_t left, received, wanted;  // of the answer in work; wanted: 0 before its length is known
  uint64_t sent_at, hash;
};

size_t draw_size(suite::Random& random) {
  size_t kind = random.below(100);
  if (kind < 80) return random.between(16, 512);
  return kind < 97 ? random.between(512, 4096) : random.between(4096, 65536);
}

void send_request(Client& client) {
  char line[kMostRequest];
  size_t kind = client.random.below(100), key = client.random.below(1000);
  int length;
  if (kind < 40) {
    length = snprintf(line, sizeof line, "S %zu %zu\n", key, draw_size(client.random));
  } else if (kind < 85) {
    length = snprintf(line, sizeof line, "G %zu\n", key);
  } else if (kind < 97) {
    length = snprintf(line, sizeof line, "D %zu\n", key);
  } else {
    length = snprintf(line, sizeof line, "L %zu %zu\n", key, size_t{100});
  }
  client.received = client.wanted = 0;
  client.sent_at = suite::Ticks::now();
  send_all(client.socket, line, static_cast<size_t>(length));
}

// Reads what is there. Returns true when the answer is complete.
bool receive(Client& client, char* buffer) {
  ssize_t length = recv(client.socket, buffer + client.received, kMostAnswer - client.received, 0);
  suite::require(length > 0, "the server has closed a connection");
  client.received += static_cast<size_t>(length);
  if (client.received < sizeof(uint64_t)) return false;
  uint64_t size;
  memcpy(&size, buffer, sizeof size);
  client.wanted = sizeof size + size;
  return client.received == client.wanted;
}

[[noreturn]] void run_client(Client* clients, size_t connections, Results* results, char* buffers) {
  pollfd* polls = suite::table<pollfd>(connections);
  for (size_t i = 0; i < connections; ++i) {
    polls[i] = {clients[i].socket, POLLIN, 0};
    send_request(clients[i]);
  }
  for (size_t busy = connections; busy > 0;) {
    if (poll(polls, connections, -1) <= 0) continue;
    for (size_t i = 0; i < connections; ++i) {
      char* buffer = buffers + i * kMostAnswer;
      Client& client = clients[i];
      if ((polls[i].revents & POLLIN) == 0 || !receive(client, buffer)) continue;
      results->latencies.add(suite::Ticks::now() - client.sent_at);
      client.hash = suite::hash_bytes(buffer, client.received, client.hash);
      if (--client.left > 0) {
        send_request(client);
      } else {
        polls[i].fd = -1;
        close(client.socket);
        results->checksum += suite::mix(client.hash);
        --busy;
      }
    }
  }
  _exit(0);
}

// Shared with the client.
template <class T>
T* shared(size_t count) {
  void* memory = mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  suite::require(memory != MAP_FAILED, "no shared memory");
  return static_cast<T*>(memory);
}

}  // namespace

int main(int argc, char** argv) {
  suite::Run run(argc, argv, "server", "of no paper", "a server whose clients store, get, delete and list");
  size_t threads = run.threads(2);
  size_t connections = run.number("connections", 64, "connections, each with one request at a time", 1, 1000);
  size_t requests = run.scaled("requests", 1'000'000, "requests of all connections") / connections + 1;
  run.begin(threads);

  Results* results = shared<Results>(1);
  Connection* all = suite::table<Connection>(connections);
  Client* clients = suite::table<Client>(connections);
  int events = epoll_create1(EPOLL_CLOEXEC), wake[2];
  suite::require(events >= 0 && pipe(wake) == 0, "no epoll");
  for (size_t i = 0; i < connections; ++i) {
    int ends[2];
    suite::require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "no socket");
    all[i].socket = ends[0];
    clients[i] = {ends[1], suite::Random(run.seed() * 1000 + i), requests, 0, 0, 0, 1};
  }
  suite::Ticks::start();
  pid_t child = -1;
  std::atomic<size_t> open{connections};
  for (size_t i = 0; i < connections; ++i) {
    all[i].buckets = suite::make<Entry*>(kBuckets);
    epoll_event event{};
    event.events = EPOLLIN | EPOLLONESHOT;
    event.data.ptr = &all[i];
    suite::require(epoll_ctl(events, EPOLL_CTL_ADD, all[i].socket, &event) == 0, "epoll_ctl failed");
  }
  epoll_event last{};
  last.events = EPOLLIN;
  suite::require(epoll_ctl(events, EPOLL_CTL_ADD, wake[0], &last) == 0, "epoll_ctl failed");
  child = fork();
  suite::require(child >= 0, "cannot fork");
  if (child == 0) {
    for (size_t i = 0; i < connections; ++i) close(all[i].socket);
    run_client(clients, connections, results, suite::table<char>(connections * kMostAnswer));
  }
  for (size_t i = 0; i < connections; ++i) close(clients[i].socket);
  bench::run_threads(threads, [&](size_t thread) {
    run.start(thread);
    serve(events, open, wake[1]);
    run.stop();
  });
  int status = 0;
  suite::require(waitpid(child, &status, 0) == child && status == 0, "the client failed");
  suite::Ticks::stop();
  run.latencies(suite::kRequest, results->latencies);
  run.report(requests * connections, results->checksum);
}

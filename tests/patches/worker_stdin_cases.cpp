// Cases for the two headers that the patch adds, each named on the command line; `--list` prints the names.
// A pipe stands for the worker's stdin, and std::getline for its main loop.

#include <executorch/examples/llm_server/cpp/worker_cancel_hook.h>
#include <executorch/examples/llm_server/cpp/worker_stdin.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <istream>
#include <map>
#include <string>
#include <string_view>
#include <thread>

namespace llm = executorch::extension::llm;

namespace {

const std::string kCancel = "{\"op\":\"cancel\"}";

void check(bool holds, const char* what, int line) {
  if (!holds) {
    std::fprintf(stderr, "line %d: %s\n", line, what);
    std::exit(1);
  }
}
#define CHECK(condition) check((condition), #condition, __LINE__)

class Pipe {
 public:
  Pipe() : buffer_(open_pipe()), input(&buffer_) {
    llm::worker_cancel_begin();
    llm::worker_cancel_hook().poll = [this]() {
      return buffer_.take_line([](std::string_view line) { return line == kCancel; }) || buffer_.has_ended();
    };
  }

  ~Pipe() {
    llm::worker_cancel_hook().poll = nullptr;
    close_writer();
    ::close(ends_[0]);
  }

  void write(const std::string& text) {
    std::size_t done = 0;
    while (done < text.size()) {
      const ssize_t count = ::write(ends_[1], text.data() + done, text.size() - done);
      CHECK(count > 0);
      done += static_cast<std::size_t>(count);
    }
  }

  void close_writer() {
    if (ends_[1] >= 0) {
      ::close(ends_[1]);
      ends_[1] = -1;
    }
  }

  std::string next_line() {
    std::string line;
    CHECK(static_cast<bool>(std::getline(input, line)));
    return line;
  }

  bool has_no_line() {
    std::string line;
    return !std::getline(input, line);
  }

  int waiting_bytes() {
    int count = -1;
    CHECK(::ioctl(ends_[0], FIONREAD, &count) == 0);
    return count;
  }

  void make_non_blocking() {
    CHECK(::fcntl(ends_[0], F_SETFL, O_NONBLOCK) == 0);
  }

 private:
  int open_pipe() {
    CHECK(::pipe(ends_) == 0);
    return ends_[0];
  }

  int ends_[2] = {-1, -1};
  llm::WorkerStdin buffer_;

 public:
  std::istream input;
};

void request_and_cancel_in_one_write() {
  Pipe pipe;
  pipe.write("request\n" + kCancel + "\nnext\n");
  CHECK(pipe.next_line() == "request");
  CHECK(llm::worker_cancel_requested());
  CHECK(pipe.next_line() == "next");
}

void cancel_split_anywhere() {
  const std::string behind = kCancel + "\nnext\n";
  for (std::size_t split = 0; split <= behind.size(); ++split) {
    Pipe pipe;
    pipe.write("request\n" + behind.substr(0, split));
    CHECK(pipe.next_line() == "request");
    CHECK(llm::worker_cancel_requested() == (split > kCancel.size()));
    pipe.write(behind.substr(split));
    CHECK(llm::worker_cancel_requested());
    CHECK(pipe.next_line() == "next");
  }
}

void cancel_after_the_terminal() {
  Pipe pipe;
  pipe.write("request\n");
  CHECK(pipe.next_line() == "request");
  CHECK(!llm::worker_cancel_requested());
  pipe.write(kCancel + "\nnext\n");
  CHECK(pipe.next_line() == kCancel); // which the main loop swallows
  CHECK(pipe.next_line() == "next");
  llm::worker_cancel_begin();
  CHECK(!llm::worker_cancel_requested());
}

void two_cancels() {
  Pipe pipe;
  pipe.write("request\n" + kCancel + "\n" + kCancel + "\nnext\n");
  CHECK(pipe.next_line() == "request");
  CHECK(llm::worker_cancel_requested());
  CHECK(llm::worker_cancel_requested());
  CHECK(llm::worker_cancel_hit());
  CHECK(pipe.next_line() == kCancel); // the second was not taken: the first had done it
  CHECK(pipe.next_line() == "next");
  llm::worker_cancel_begin();
  CHECK(!llm::worker_cancel_hit());
  CHECK(!llm::worker_cancel_requested());
}

void end_in_decode() {
  Pipe pipe;
  pipe.write("request\n");
  CHECK(pipe.next_line() == "request");
  CHECK(!llm::worker_cancel_requested());
  pipe.close_writer();
  CHECK(llm::worker_cancel_requested());
  CHECK(pipe.has_no_line());
}

void end_inside_a_line() {
  Pipe pipe;
  pipe.write("request\nhalf");
  CHECK(pipe.next_line() == "request");
  pipe.close_writer();
  CHECK(llm::worker_cancel_requested());
  CHECK(pipe.next_line() == "half");
  CHECK(pipe.has_no_line());
}

void other_line_is_kept() {
  Pipe pipe;
  pipe.write("request\nother\n" + kCancel + "\n");
  CHECK(pipe.next_line() == "request");
  CHECK(!llm::worker_cancel_requested());
  CHECK(!llm::worker_cancel_requested());
  CHECK(pipe.next_line() == "other");
  CHECK(llm::worker_cancel_requested()); // now it is the oldest line
}

void long_line_stays_in_the_pipe() {
  Pipe pipe;
  const std::string large(30'000'000, 'x');
  pipe.write("request\n");
  CHECK(pipe.next_line() == "request");
  std::thread writer([&]() { pipe.write(large + "\n" + kCancel + "\n"); });
  while (pipe.waiting_bytes() == 0) {
    std::this_thread::yield();
  }
  for (int step = 0; step < 10'000; ++step) {
    CHECK(!llm::worker_cancel_requested());
  }
  CHECK(pipe.next_line() == large);
  writer.join();
  CHECK(llm::worker_cancel_requested());
}

void cancel_across_the_end_of_the_buffer() {
  for (std::size_t first = 65'500; first <= 65'536; ++first) {
    Pipe pipe;
    const std::string request(first - 1, 'r');
    std::thread writer([&]() { pipe.write(request + "\n" + kCancel + "\nnext\n"); });
    CHECK(pipe.next_line() == request);
    writer.join();
    CHECK(llm::worker_cancel_requested());
    CHECK(pipe.next_line() == "next");
  }
}

void longest_line_that_is_taken() {
  const std::size_t longest = llm::WorkerStdin::kLongestTakenLine;
  for (const std::size_t size : {longest - 1, longest}) {
    Pipe pipe;
    const std::string line(size, 'c');
    pipe.write("request\n" + line + "\n");
    CHECK(pipe.next_line() == "request");
    std::size_t asked = 0;
    llm::worker_cancel_hook().poll = [&]() {
      return static_cast<llm::WorkerStdin*>(pipe.input.rdbuf())->take_line([&](std::string_view seen) {
        asked = seen.size();
        return false;
      });
    };
    CHECK(!llm::worker_cancel_requested());
    CHECK(asked == (size < longest ? size : 0));
    CHECK(pipe.next_line() == line);
  }
}

void descriptor_that_does_not_block() {
  Pipe pipe;
  pipe.make_non_blocking();
  std::thread writer([&]() {
    pipe.write("requ");
    std::this_thread::yield();
    pipe.write("est\n");
  });
  CHECK(pipe.next_line() == "request");
  writer.join();
  CHECK(!llm::worker_cancel_requested());
}

void signals_while_it_waits() {
  struct sigaction action = {};
  action.sa_handler = [](int) {};
  CHECK(::sigaction(SIGUSR1, &action, nullptr) == 0); // without SA_RESTART: a call that waits is interrupted
  Pipe pipe;
  const pthread_t reader = ::pthread_self();
  std::thread writer([&]() {
    for (int signal = 0; signal < 200; ++signal) {
      ::pthread_kill(reader, SIGUSR1);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    pipe.write("request\n");
  });
  CHECK(pipe.next_line() == "request");
  writer.join();
}

void program_without_a_poll() {
  llm::worker_cancel_begin();
  CHECK(!llm::worker_cancel_requested());
  CHECK(!llm::worker_cancel_hit());
}

const std::map<std::string, std::function<void()>> kCases = {
    {"request_and_cancel_in_one_write", request_and_cancel_in_one_write},
    {"cancel_split_anywhere", cancel_split_anywhere},
    {"cancel_after_the_terminal", cancel_after_the_terminal},
    {"two_cancels", two_cancels},
    {"end_in_decode", end_in_decode},
    {"end_inside_a_line", end_inside_a_line},
    {"other_line_is_kept", other_line_is_kept},
    {"long_line_stays_in_the_pipe", long_line_stays_in_the_pipe},
    {"cancel_across_the_end_of_the_buffer", cancel_across_the_end_of_the_buffer},
    {"longest_line_that_is_taken", longest_line_that_is_taken},
    {"descriptor_that_does_not_block", descriptor_that_does_not_block},
    {"signals_while_it_waits", signals_while_it_waits},
    {"program_without_a_poll", program_without_a_poll},
};

} // namespace

int main(int count, char** arguments) {
  if (count == 2 && std::string(arguments[1]) == "--list") {
    for (const auto& [name, run] : kCases) {
      std::puts(name.c_str());
    }
    return 0;
  }
  const auto found = count == 2 ? kCases.find(arguments[1]) : kCases.end();
  if (found == kCases.end()) {
    return 2;
  }
  found->second();
  return 0;
}

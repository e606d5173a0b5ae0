// One output of the launcher (stdout, stderr or a log file), shared by the streams of several ranks
// without ever mixing two lines, and without ever blocking: what the descriptor does not take now
// waits in a queue, and full() asks the caller to stop reading.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace wmtp::cli {

class Console {
 public:
  explicit Console(int fd);  // BORROWS fd

  // Appends a piece of one line of `source`; a piece without line feed leaves the line open. While
  // a line is open its source goes on without `prefix`; another source first ends the line.
  // A drawing of rank 0 that stands is erased first.
  void write(int source, std::string_view prefix, std::string_view piece);
  // A drawing (core/live_frame.h), whole: it ends an open line, and is dropped where there is no
  // terminal.
  void draw(std::string_view frame);
  void erase_drawing();

  void pump();  // hands over what the descriptor takes at once
  bool pending() const { return head_ < queue_.size(); }
  bool full() const { return queue_.size() - head_ > kMaxQueueBytes; }
  bool broken() const {
    return broken_;
  }  // the reader is gone or the disk is full: text is dropped
  int fd() const { return fd_; }

 private:
  static constexpr std::size_t kMaxQueueBytes = std::size_t{1} << 20;
  std::size_t write_some();  // bytes taken; 0 = not now

  int fd_;
  bool regular_;  // a file: takes any amount
  bool broken_ = false;
  std::string queue_;
  std::size_t head_ = 0;
  int open_source_ = -1;
  bool terminal_;
  bool drawing_stands_ = false;
};

}  // namespace wmtp::cli

#include "wmtp/cli/launcher/line_prefixer.h"

#include <algorithm>
#include <cctype>

namespace wmtp::cli {
namespace {

// Longer lines are handed on in pieces, to bound memory.
constexpr std::size_t kMaxLineBytes = std::size_t{1} << 20;

// "06:31:00 ": what our log lines begin with.
bool starts_with_time(std::string_view line) {
  constexpr std::string_view kShape = "00:00:00 ";
  if (line.size() < kShape.size()) return false;
  return std::equal(kShape.begin(), kShape.end(), line.begin(), [](char shape, char c) {
    return shape == '0' ? std::isdigit(static_cast<unsigned char>(c)) != 0 : shape == c;
  });
}

}  // namespace

bool is_problem_line(std::string_view line) {
  if (line.starts_with(R"({"type":"log")")) return false;
  if (!starts_with_time(line)) return true;
  line.remove_prefix(9);
  if (line.starts_with('\x1b')) line.remove_prefix(std::min(line.find('m') + 1, line.size()));
  return !line.starts_with("info") && !line.starts_with("debug");
}

bool names_its_rank(std::string_view line) {
  if (line.starts_with(R"({"type":"log")")) {
    const std::size_t end = line.find_last_not_of("\r\n}0123456789");
    return end != std::string_view::npos && line.substr(0, end + 1).ends_with(R"(,"rank":)");
  }
  const std::size_t module_end = line.find("] ");
  if (!starts_with_time(line) || module_end == std::string_view::npos) return false;
  line.remove_prefix(module_end + 2);
  if (!line.starts_with("rank ")) return false;
  const std::size_t number_end = line.find_first_not_of("0123456789", 5);
  return number_end > 5 && number_end != std::string_view::npos && line[number_end] == ':';
}

void LinePrefixer::show(std::string_view line) {
  const bool wanted =
      route_.show == Show::everything ||
      (route_.show == Show::problems && (is_problem_line(line) || names_its_rank(line)));
  if (wanted) route_.console->write(route_.source, route_.prefix, line.substr(shown_bytes_));
}

void LinePrefixer::complete(std::string_view line) {
  show(line);
  if (route_.log) route_.log->write(route_.source, "", line);
  shown_bytes_ = 0;
}

void LinePrefixer::feed(std::string_view bytes, Clock::time_point now) {
  frames_.add(bytes);
  while (const auto piece = frames_.next()) {
    if (!piece->is_frame)
      feed_text(piece->bytes, now);
    else if (route_.show == Show::everything)
      route_.console->draw(piece->bytes);
  }
}

void LinePrefixer::feed_text(std::string_view bytes, Clock::time_point now) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    if (end == std::string_view::npos) break;
    if (partial_.empty()) {
      complete(bytes.substr(0, end + 1));
    } else {
      partial_ += bytes.substr(0, end + 1);
      complete(partial_);
      partial_.clear();
    }
    bytes.remove_prefix(end + 1);
  }
  if (bytes.empty()) return;
  if (partial_.size() == shown_bytes_) waiting_since_ = now;
  partial_ += bytes;
  if (route_.pass_through) flush_partial(now + kPartialLineDelay);
  if (partial_.size() > kMaxLineBytes) {
    complete(partial_);
    partial_.clear();
  }
}

Clock::time_point LinePrefixer::partial_due() const {
  return partial_.size() > shown_bytes_ ? waiting_since_ + kPartialLineDelay
                                        : Clock::time_point::max();
}

void LinePrefixer::flush_partial(Clock::time_point now) {
  if (now < partial_due()) return;
  show(partial_);
  shown_bytes_ = partial_.size();
}

void LinePrefixer::finish() {
  feed_text(frames_.rest(), Clock::now());
  if (partial_.empty()) return;
  partial_ += '\n';
  complete(partial_);
  partial_.clear();
}

}  // namespace wmtp::cli

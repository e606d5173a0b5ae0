// One rank's time as a step passes it: it computes, starts collectives and waits for them. All
// ranks are alike, so one of them stands for all. What is on a link at the same time shares it
// evenly; the collectives of a channel (a communicator) begin in the order they were started.
#pragma once
#include <cstddef>
#include <vector>

namespace wmtp::run {

// What a rank can send over while it receives as much.
struct LinkModel {
  double bytes_per_s = 1e9;  // finite, > 0
  double latency_s = 0;      // of one hop of a ring
  double start_s = 0;        // of a collective, before its first byte
  // Compute that a byte costs while it is on its way: processors copy for sockets, a GPU lends
  // multiprocessors to NCCL. Bytes get half of what computes at most, and are the slower for it.
  double compute_s_per_byte = 0;
};

// What a rank sends of a collective.
struct Transfer {
  double bytes = 0;
  double hops = 0;  // one after the other
};

class StepTimeline {
 public:
  using Ticket = std::size_t;

  explicit StepTimeline(std::vector<LinkModel> links) : links_(std::move(links)) {}

  // `lanes` collectives of the channel run at once.
  std::size_t add_channel(std::size_t link, int lanes);
  Ticket start(std::size_t channel, const Transfer& transfer);
  // Returns what the collectives beside it added.
  double compute(double seconds);
  // Returns the seconds until the collective had ended; 0 if it had.
  double wait(Ticket ticket);

  double now() const { return now_; }
  // The collective's time with the link to itself.
  double alone(std::size_t channel, const Transfer& transfer) const;

 private:
  struct Channel {
    std::size_t link = 0;
    int lanes = 1;
  };
  struct Flow {
    std::size_t channel = 0;
    double fixed_s = 0;  // start and latency: nothing on the link yet
    double bytes = 0;
    bool ended = false;
  };

  // Of what they are without the other one.
  struct Speeds {
    double compute = 1, bytes = 1;
  };

  double fixed_s(std::size_t channel, const Transfer& transfer) const;
  std::vector<Flow*> running();
  std::vector<double> sharers_of(const std::vector<Flow*>& flows) const;  // by link
  void advance(double seconds, double byte_speed);
  double next_event(double byte_speed);  // until one of the running flows gets further
  Speeds speeds_beside_each_other();

  std::vector<LinkModel> links_;
  std::vector<Channel> channels_;
  std::vector<Flow> flows_;     // by ticket
  std::size_t first_open_ = 0;  // those before it have ended
  double now_ = 0;
};

}  // namespace wmtp::run

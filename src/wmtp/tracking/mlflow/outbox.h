// What of a spool goes into the next request.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "wmtp/tracking/mlflow/spool/record.h"
#include "wmtp/tracking/mlflow/spool/spool_reader.h"

namespace wmtp::tracking::mlflow {

struct Param {
  KeyValue pair;
};
struct Tag {
  KeyValue pair;
};

// The smallest thing that a server can take or refuse.
struct Item {
  std::uint64_t seq = 0;  // of its record
  std::variant<Metric, Param, Tag> value;
};
OrderedJson to_json(const Item& item);
Batch batch_of(std::span<const Item> items);

// What the server has or will have with what is on the way, by key.
struct KnownThere {
  std::map<std::string, std::string> params;
  std::map<std::string, std::int64_t> sent_up_to;  // steps of metrics
};

// Params are write-once: one that the server has is left out, or becomes the tag
// "wmtp.changed.<key>" where its value is another one now; one that it has not joins `known`.
// REQUIRES a record of metrics, params or tags.
std::vector<Item> items_of(const Record& record, KnownThere& known);

// THREADS: one at a time.
class Outbox {
 public:
  // Records up to `after` are passed over, but for those of `later`.
  Outbox(const storage::FileSystem& files, const std::filesystem::path& folder, std::uint64_t after,
         const std::vector<std::uint64_t>& later);  // BORROWS files

  // What to send next. Empty, with no inputs: nothing for now. The same until done() is called.
  struct Next {
    std::vector<Item> items;
    std::optional<Record> inputs;  // instead of items
    std::uint64_t up_to = 0;       // with it, the server has all records up to here
  };
  const Next& next(KnownThere& known);
  bool is_full() const { return has_more_; }  // more is behind what next() gave
  void done();

  // Artifacts are passed over, since one that cannot be sent must not keep numbers back.
  std::deque<Record>& artifacts() { return artifacts_; }
  std::uint64_t up_to() const { return up_to_; }  // done() for all of these

 private:
  bool read_record(KnownThere& known);

  SpoolReader reader_;
  std::uint64_t after_, up_to_;
  std::set<std::uint64_t> later_;
  std::deque<Item> waiting_;      // read, in no request yet
  std::optional<Record> inputs_;  // the same, behind waiting_
  std::uint64_t read_up_to_ = 0;
  std::deque<Record> artifacts_;
  Next next_;
  bool has_more_ = false;
};

}  // namespace wmtp::tracking::mlflow

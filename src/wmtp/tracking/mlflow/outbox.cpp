#include "wmtp/tracking/mlflow/outbox.h"

#include <algorithm>
#include <utility>

#include "wmtp/tracking/mlflow/rest/batch.h"
#include "wmtp/tracking/mlflow/rest/limits.h"

namespace wmtp::tracking::mlflow {
namespace {

bool add_to(BatchRoom& room, const Item& item) {
  if (const auto* metric = std::get_if<Metric>(&item.value)) return room.add_metric(*metric);
  if (const auto* param = std::get_if<Param>(&item.value)) return room.add_param(param->pair);
  return room.add_tag(std::get<Tag>(item.value).pair);
}

}  // namespace

OrderedJson to_json(const Item& item) {
  OrderedJson json{{"seq", item.seq}};
  if (const auto* metric = std::get_if<Metric>(&item.value)) json["metric"] = metric_json(*metric);
  if (const auto* param = std::get_if<Param>(&item.value)) json["param"] = tag_json(param->pair);
  if (const auto* tag = std::get_if<Tag>(&item.value)) json["tag"] = tag_json(tag->pair);
  return json;
}

Batch batch_of(std::span<const Item> items) {
  Batch batch;
  for (const Item& item : items) {
    if (const auto* metric = std::get_if<Metric>(&item.value)) batch.metrics.push_back(*metric);
    if (const auto* param = std::get_if<Param>(&item.value)) batch.params.push_back(param->pair);
    if (const auto* tag = std::get_if<Tag>(&item.value)) batch.tags.push_back(tag->pair);
  }
  return batch;
}

std::vector<Item> items_of(const Record& record, KnownThere& known) {
  std::vector<Item> items;
  if (record.kind == RecordKind::metrics) {
    for (Metric& metric : metrics_of(record)) {
      const auto at = known.sent_up_to.find(metric.key);
      if (at == known.sent_up_to.end() || metric.step > at->second)
        items.push_back({record.seq, std::move(metric)});
    }
    return items;
  }
  for (KeyValue& pair : pairs_of(record)) {
    if (record.kind == RecordKind::tags) {
      items.push_back({record.seq, Tag{std::move(pair)}});
      continue;
    }
    const auto [at, is_new] = known.params.try_emplace(pair.first, pair.second);
    if (is_new)
      items.push_back({record.seq, Param{std::move(pair)}});
    else if (at->second != pair.second)
      items.push_back({record.seq, Tag{{fit_key("wmtp.changed." + pair.first).text,
                                        fit_tag(pair.second).text}}});
  }
  return items;
}

Outbox::Outbox(const storage::FileSystem& files, const std::filesystem::path& folder,
               std::uint64_t after, const std::vector<std::uint64_t>& later)
    : reader_(files, folder),
      after_(after),
      up_to_(after),
      later_(later.begin(), later.end()),
      read_up_to_(after) {}

bool Outbox::read_record(KnownThere& known) {
  std::optional<Record> record = reader_.next();
  if (!record) return false;
  const bool is_new = record->seq > after_;
  if (is_new) read_up_to_ = record->seq;
  if (record->kind == RecordKind::artifact) {
    if (is_new || later_.contains(record->seq)) artifacts_.push_back(std::move(*record));
  } else if (is_new && record->kind == RecordKind::inputs) {
    inputs_ = std::move(record);
  } else if (is_new) {
    for (Item& item : items_of(*record, known)) waiting_.push_back(std::move(item));
  }
  return true;
}

const Outbox::Next& Outbox::next(KnownThere& known) {
  if (!next_.items.empty() || next_.inputs) return next_;
  BatchRoom room;
  has_more_ = false;
  for (;;) {
    while (!waiting_.empty() && !has_more_) {
      has_more_ = !add_to(room, waiting_.front());
      // One that does not even fit alone goes alone, and the server says what is wrong with it.
      if (has_more_ && !next_.items.empty()) break;
      next_.items.push_back(std::move(waiting_.front()));
      waiting_.pop_front();
    }
    if (has_more_ || inputs_ || !read_record(known)) break;
  }
  if (has_more_ && !waiting_.empty())
    // The front's record is in part or wholly behind this batch.
    next_.up_to = waiting_.front().seq - 1;
  else
    next_.up_to = inputs_ ? inputs_->seq - 1 : read_up_to_;
  if (next_.items.empty() && inputs_) {
    next_.up_to = inputs_->seq;
    next_.inputs = std::exchange(inputs_, std::nullopt);
  }
  has_more_ = has_more_ || inputs_;
  up_to_ = next_.items.empty() && !next_.inputs ? std::max(up_to_, next_.up_to) : up_to_;
  return next_;
}

void Outbox::done() {
  up_to_ = std::max(up_to_, next_.up_to);
  next_ = {};
}

}  // namespace wmtp::tracking::mlflow

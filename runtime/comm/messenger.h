#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/cost_model.h"
#include "core/timeline.h"
#include "runtime/device/device.h"

namespace sluice {

/// One rank's part in a multicast: what, from whom, to whom, and how much is left to do.
class Multicast {
 public:
  std::byte* data = nullptr;
  std::int64_t bytes = 0;
  int tag = 0;
  Event ready;                  ///< the buffer may be used from here on
  Rank parent = kNone;          ///< kNone: the root
  std::vector<Rank> children;   ///< in the order of the edges
  bool posted = false;          ///< `ready` was seen
  std::int64_t unfinished = 0;  ///< messages that are not complete

  [[nodiscard]] bool done() const { return posted && unfinished == 0; }
};

/// Posts the messages of multicasts and takes their completions. A payload goes
/// in pieces of at most `chunk_bytes`, in order; a member passes each piece on
/// when it is here. Pieces of one edge share a tag: MPI keeps their order.
///
/// State of a multicast: waiting for `ready` -> posted (the root's sends, or the
/// first receive; each completed receive posts its sends and the next) -> done.
class Messenger {
 public:
  Messenger(MPI_Comm comm, std::vector<int> node_of_rank, std::int64_t chunk_bytes);
  /// Gives up what is still in flight.
  ~Messenger();
  Messenger(const Messenger&) = delete;
  Messenger& operator=(const Messenger&) = delete;

  [[nodiscard]] int max_tag() const { return max_tag_; }

  /// As Communicator::start_multicast.
  [[nodiscard]] std::shared_ptr<Multicast> start(std::span<const Edge> edges, void* data, std::int64_t bytes, int tag,
                                                 Event ready);

  /// One round: posts what has become ready, takes what is complete.
  /// @return true if anything moved
  bool advance();

  /// What `multicast` still waits for, for people.
  [[nodiscard]] std::string missing(const Multicast& multicast) const;

  [[nodiscard]] const LinkBytes& sent_bytes() const { return sent_bytes_; }
  [[nodiscard]] const LinkBytes& received_bytes() const { return received_bytes_; }

 private:
  struct Message {
    std::shared_ptr<Multicast> multicast;
    bool sending = false;
    Rank peer = kNone;
    std::int64_t offset = 0;  ///< of the piece in the payload [B]
    std::int64_t bytes = 0;   ///< of the piece
  };
  struct Completion {
    Message message;
    MPI_Status status;
    int code;
  };

  void post(const std::shared_ptr<Multicast>& multicast);
  void receive_piece(const std::shared_ptr<Multicast>& multicast, std::int64_t offset);
  void send_piece(const std::shared_ptr<Multicast>& multicast, std::int64_t offset, std::int64_t bytes);
  void post_message(Message message);
  [[nodiscard]] std::vector<Completion> take_completions();
  void settle(const Completion& completion);
  [[nodiscard]] std::string name(const Message& message) const;
  [[nodiscard]] std::int64_t piece_bytes(const Multicast& multicast, std::int64_t offset) const;

  MPI_Comm comm_;
  Rank rank_ = 0;
  int max_tag_ = 0;
  std::vector<int> node_of_rank_;
  std::int64_t chunk_bytes_;
  std::vector<std::shared_ptr<Multicast>> waiting_;  ///< for their `ready`
  std::vector<MPI_Request> requests_;
  std::vector<Message> messages_;  ///< messages_[i] belongs to requests_[i]
  LinkBytes sent_bytes_{};
  LinkBytes received_bytes_{};
};

}  // namespace sluice

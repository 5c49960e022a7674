// SPDX-License-Identifier: MIT
  // What shared_times_formal begins with, and comes back to whenever the back is at rest: of the insides of
  // shared_indices, so in Verilog, whose wires yosys joins with those of the same name when it flattens the design.
  (* hierconn *) wire       \unit.back_idle ;
  (* hierconn *) wire       \unit.back_turn ;
  (* hierconn *) wire [1:0] \unit.kept ;
  (* hierconn *) wire       \unit.kept_above ;
  (* hierconn *) wire       \unit.fetching ;
  (* hierconn *) wire       \unit.draining ;
  (* hierconn *) wire       \unit.moving ;
  (* hierconn *) wire [3:0] \unit.buffers.counts ;
  (* hierconn *) wire [1:0] \unit.buffers.room ;
  (* hierconn *) wire [1:0] \unit.buffers.two ;
  (* hierconn *) wire [1:0] \unit.buffers.front_set ;
  (* hierconn *) wire [1:0] \unit.buffers.front_count ;
  (* hierconn *) wire       \unit.front_room ;
  (* hierconn *) wire       \unit.front_two ;
  (* hierconn *) wire [3:0] \unit.front.state ;
  (* hierconn *) wire [1:0] \unit.front.pick ;
  (* hierconn *) wire [1:0] \unit.front.ahead ;
  (* hierconn *) wire [1:0] \unit.front.left ;
  (* hierconn *) wire       \unit.front.looked ;

  function one_or_none (input [1:0] set);
    one_or_none = set != 2'd3;
  endfunction

  // Nothing is on its way, and no buffer has more than its two places.
  wire nothing_kept = !\unit.back_turn && \unit.kept == 0 && !\unit.kept_above && !\unit.fetching && !\unit.draining &&
                      !\unit.moving && !req;
  wire within = \unit.buffers.counts [1:0] < 3 && \unit.buffers.counts [3:2] < 3;

  // In the states look (2), pop (3) and push (6) the front has looked up one index, and nothing has changed since.
  wire looked = \unit.front.state == 2 || \unit.front.state == 3 || \unit.front.state == 6;
  wire [1:0] looked_count = (\unit.buffers.front_set [0] ? \unit.buffers.counts [3:2] : 2'd0) |
                            (\unit.buffers.front_set [1] ? \unit.buffers.counts [1:0] : 2'd0);
  wire exact = \unit.buffers.front_set == \unit.front.pick && \unit.buffers.front_count == looked_count &&
               \unit.front_room == |(\unit.buffers.front_set & \unit.buffers.room ) &&
               \unit.front_two == |(\unit.buffers.front_set & \unit.buffers.two );
  // A cut has one part here (op 2): none is left behind it.
  wire alone = (\unit.front.left & ~\unit.front.pick ) == 0 && (\unit.front.state != 6 || \unit.front.ahead == 0);
  // Each state is one of these operations: 0 allocation, 1 free, 2 parts, 3 pair; at rest (0) there may be none.
  reg has_op;
  always @*
    case (\unit.front.state )
      0: has_op = 1;
      1: has_op = op != 3 && (!\unit.front.looked || op == 1);
      2: has_op = !\unit.front.looked && (op == 0 || op == 1);
      3: has_op = op == 0 && \unit.buffers.front_count != 0;
      4, 5: has_op = op == 1;
      6: has_op = op == 1 || (op == 2 && !\unit.front.looked );
      7: has_op = op == 0 && !\unit.front.looked ;
      8: has_op = op == 1 || (op == 2 && !\unit.front.looked );
      9: has_op = op == 3;
      10: has_op = 1;
      default: has_op = 0;
    endcase
  wire in_front = has_op && one_or_none(\unit.front.pick ) && one_or_none(\unit.front.ahead ) &&
                  (\unit.front.state == 0 || (asking && (\unit.front.pick != 0 || \unit.front.state == 10))) &&
                  (!looked || exact) &&
                  (\unit.front.state == 0 || \unit.front.state == 10 || op != 2 || alone);

  wire at_rest = nothing_kept && within && in_front;

  reg has_begun = 0, measures, has_ended = 0;
  reg [5:0] busy = 0, cycles = 0, moves = 0, own = 0;
  // The operation that the run begins with, if it waits for the back: for a block (7), for room (8), for a pair (9).
  wire waits = \unit.front.state >= 7 && \unit.front.state <= 9;
  always @(posedge clk_i) begin
    has_begun <= 1;
    if (!has_begun) measures <= waits;
    if (done || refused) has_ended <= 1;
    if (!has_ended && cycles != 63) cycles <= cycles + 1;
    if (!has_ended && req && own != 63) own <= own + 1;
    busy <= \unit.back_idle ? 0 : busy + (busy != 63);
    moves <= \unit.back_idle ? 0 : moves + (req && moves != 63);
  end
  always @* if (!has_begun) assume (\unit.back_idle && at_rest);
  always @* if (has_begun && \unit.back_idle )
    stays: assert (at_rest);
  always @* if (has_begun)
    sequence_ends: assert (busy < 25 && moves <= 7);
  always @* if (has_begun && measures && !has_ended)
    operation_ends: assert (cycles < 15 && own <= 3);

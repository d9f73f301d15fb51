/* SPDX-License-Identifier: Apache-2.0
 * execute.c - the interpreter's loop. */
#include "vm.h"

#define STACK 4096
#define MAX_CALLS 512

typedef struct {
    const instruction *back;
    i64 *registers;
} frame;

outcome execute(const instruction *code, i64 *memory, usize memory_size, u64 max_steps) {
    i64 stack[STACK] = {0}, *r = stack;
    frame calls[MAX_CALLS], *top = calls;
    const instruction *at = code;
    outcome out = {0, 0, 0, 0, 0, 0, 1};
    u64 loads = 0, stores = 0, taken = 0, trace = 0;
    for (u64 steps = 0; steps < max_steps; steps++) {
        instruction now = *at++;
        usize place;
        switch ((opcode)now.op) {
        case HALT:
            out.result = r[now.a];
            out.steps = steps;
            out.loads = loads;
            out.stores = stores;
            out.taken = taken;
            out.trace = trace;
            out.failed = 0;
            return out;
        case SET: r[now.a] = now.b * 256 + now.c; break;
        case MOVE: r[now.a] = r[now.b]; break;
        case ADD: r[now.a] = (i64)((u64)r[now.b] + (u64)r[now.c]); break;
        case SUB: r[now.a] = (i64)((u64)r[now.b] - (u64)r[now.c]); break;
        case MUL: r[now.a] = (i64)((u64)r[now.b] * (u64)r[now.c]); break;
        case DIV: r[now.a] = r[now.c] ? (i64)((u64)r[now.b] / (u64)r[now.c]) : 0; break;
        case REM: r[now.a] = r[now.c] ? (i64)((u64)r[now.b] % (u64)r[now.c]) : 0; break;
        case AND: r[now.a] = r[now.b] & r[now.c]; break;
        case XOR: r[now.a] = r[now.b] ^ r[now.c]; break;
        case SHL: r[now.a] = (i64)((u64)r[now.b] << (r[now.c] & 63)); break;
        case SHR: r[now.a] = (i64)((u64)r[now.b] >> (r[now.c] & 63)); break;
        case ADDI: r[now.a] = r[now.b] + (signed char)now.c; break;
        case LOAD:
        case STORE:
            place = (usize)r[now.b] + now.c;
            if (place >= memory_size)
                return out;
            if (now.op == LOAD) {
                r[now.a] = memory[place];
                loads++;
            } else {
                memory[place] = r[now.a];
                stores++;
            }
            break;
        case JUMP:
            at = code + now.b * 256 + now.c;
            taken++;
            break;
        case JZERO:
            if (r[now.a] == 0) {
                at = code + now.b * 256 + now.c;
                taken++;
            }
            break;
        case JLESS: at += !(r[now.b] < r[now.c]); break;
        case JEQUAL: at += r[now.b] != r[now.c]; break;
        case CALL:
            if (top == calls + MAX_CALLS || r + now.a + 16 >= stack + STACK)
                return out;
            top->back = at;
            top->registers = r;
            top++;
            r += now.a;
            at = code + now.b * 256 + now.c;
            break;
        case RETURN:
            if (top == calls)
                return out;
            r[0] = r[now.a];
            top--;
            at = top->back;
            r = top->registers;
            break;
        default: return out;
        }
        trace = (trace << 5 | trace >> 59) ^ (u64)r[now.a];
    }
    return out;
}

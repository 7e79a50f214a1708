// The shapes of the platform's answers, as far as api.ts reads them.
import { z } from 'zod';

export const sentSchema = z.object({
  data: z.object({ message_id: z.string(), msg_type: z.string().optional() }),
});
export const botSchema = z.object({
  bot: z.object({ open_id: z.string(), app_name: z.string().default('') }),
});
export const scopesSchema = z.object({
  data: z.object({ scopes: z.array(z.object({ scope_name: z.string(), grant_status: z.number() })) }),
});
export const appSchema = z.object({
  data: z.object({
    app: z.object({
      event: z
        .object({ subscription_type: z.string().nullish(), subscribed_events: z.array(z.string()).nullish() })
        .nullish(),
    }),
  }),
});
export const versionsSchema = z.object({
  data: z.object({
    items: z
      .array(
        z.object({
          status: z.number().optional(),
          event_infos: z.array(z.object({ event_type: z.string().nullish() })).nullish(),
        }),
      )
      .default([]),
  }),
});
/** Of a version: approved, so that it is or was in use. */
export const PUBLISHED = 1;
export const itemsSchema = z.object({
  data: z.object({
    items: z.array(
      z.object({
        msg_type: z.string().default('text'),
        deleted: z.boolean().optional(),
        body: z.object({ content: z.string() }).optional(),
        sender: z.object({ id: z.string(), sender_type: z.string().default('user') }).optional(),
        mentions: z.array(z.object({ key: z.string(), name: z.string(), id: z.string() })).default([]),
      }),
    ),
  }),
});
export const userSchema = z.object({ data: z.object({ user: z.object({ name: z.string().optional() }) }) });
export const reactionSchema = z.object({ data: z.object({ reaction_id: z.string() }) });
export const reactionsSchema = z.object({
  data: z.object({
    items: z
      .array(
        z.object({
          reaction_id: z.string(),
          operator: z.object({ operator_id: z.string(), operator_type: z.string() }),
        }),
      )
      .default([]),
  }),
});
export const cardSchema = z.object({ data: z.object({ card_id: z.string() }) });
export const imageSchema = z.object({ data: z.object({ image_key: z.string() }) });
export const fileSchema = z.object({ data: z.object({ file_key: z.string() }) });

// Every channel against the contract of its port.
import { boardRig } from './channels/board/rig.ts';
import { feishuRig } from './channels/feishu.ts';
import { webRig } from './channels/web.ts';
import { webhookRig } from './channels/webhook.ts';
import { wechatRig } from './channels/wechat.ts';
import { weixinRig } from './channels/weixin.ts';
import { describeChannel } from './suites/channel.ts';

describeChannel('webhook', webhookRig);
describeChannel('web', webRig);
describeChannel('feishu', feishuRig);
describeChannel('wechat', wechatRig);
describeChannel('weixin', weixinRig);
// The smallest one, of docs/writing-a-channel.md.
describeChannel('board', boardRig);
